#include "program/program_table.h"

#include <mutex>
#include <string>
#include <unordered_map>

namespace openspyre {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<const PreparedProgram>> programs;
  uint64_t next = 1;
};
Table& table() {
  static auto* instance = new Table;  // launches may outlive static destruction
  return *instance;
}

}  // namespace

uint64_t publish(std::shared_ptr<const PreparedProgram> program) {
  std::lock_guard lock(table().mutex);
  table().programs.emplace(table().next, std::move(program));
  return table().next++;
}

std::shared_ptr<const PreparedProgram> published(uint64_t id) {
  std::lock_guard lock(table().mutex);
  const auto found = table().programs.find(id);
  if (found == table().programs.end())
    fail(Fault::InvalidArgument, "there is no loaded program number " + std::to_string(id));
  return found->second;
}

void withdraw(uint64_t id) {
  std::lock_guard lock(table().mutex);
  table().programs.erase(id);
}

}  // namespace openspyre
