#include "memory/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace openspyre {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value;
  if (file >> value) return value;
  return std::nullopt;  // missing, or "max"
}

// The number after `key` in a file of "key value" lines.
std::optional<uint64_t> read_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char *limit, *usage, *reclaimable;
};
constexpr CgroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

void apply_cgroup(const std::string& folder, const CgroupFiles& files, HostLimit& host) {
  const uint64_t limit = read_number(folder + "/" + files.limit).value_or(kUnlimited);
  if (limit >= host.total_bytes && limit >= (1ull << 62)) return;  // v1 spells "no limit" as a huge number
  const uint64_t usage = read_number(folder + "/" + files.usage).value_or(0);
  const uint64_t cached = std::min(usage, read_field(folder + "/memory.stat", files.reclaimable).value_or(0));
  const uint64_t available = limit - std::min(limit, usage - cached);
  host.total_bytes = std::min(host.total_bytes, limit);
  if (available < host.available_bytes) {
    host.available_bytes = available;
    host.cgroup = true;
  }
}

// A limit may sit on any ancestor; in a container the mount itself is the process's own cgroup.
void apply_hierarchy(const std::string& mount, std::string path, const CgroupFiles& files, HostLimit& host) {
  if (path == "/") path.clear();
  for (;;) {
    apply_cgroup(mount + path, files, host);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

bool lists_memory(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "memory") return true;
  return false;
}

}  // namespace

HostLimit read_host_limit(const std::string& root) {
  HostLimit host{};
  const std::string meminfo = root + "/proc/meminfo";
  host.total_bytes = read_field(meminfo, "MemTotal:").value_or(kUnlimited >> 10) << 10;
  host.available_bytes = read_field(meminfo, "MemAvailable:").value_or(host.total_bytes >> 10) << 10;
  std::ifstream memberships(root + "/proc/self/cgroup");
  for (std::string line; std::getline(memberships, line);) {  // "hierarchy:controllers:path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      apply_hierarchy(mount, path, kVersion2, host);
      apply_hierarchy(mount + "/unified", path, kVersion2, host);
    } else if (lists_memory(controllers)) {
      apply_hierarchy(mount + "/memory", path, kVersion1, host);
    }
  }
  return host;
}

HostMemory host_memory() { return read_host_limit(); }

}  // namespace openspyre
