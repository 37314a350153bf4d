// The CPU fallback for every operator without a kernel of ours: counted, announced once per operator, or refused.
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

namespace c10 {
class OperatorHandle;
}

namespace torch_spyre {

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

enum class FallbackMode { Warn, Error, Silent };

struct FallbackCount {
  int64_t calls = 0;
  int64_t bytes_to_host = 0;
  int64_t bytes_to_device = 0;
};

void set_fallback_mode(FallbackMode mode);
std::map<std::string, FallbackCount> fallback_counts();
void reset_fallback_counts();  // operators are announced again

// Python's part: warns or raises. Called with an operator's name and "warn", "error" or
// "nowhere" (the CPU has no kernel either), or a dtype's name and "dtype".
void announce_fallback(const std::string& what, const char* manner);

}  // namespace torch_spyre
