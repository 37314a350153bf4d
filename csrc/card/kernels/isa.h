// Instruction sets the card's kernels are compiled for. All give the same bits; this is the one place that chooses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace openspyre {

enum class Isa : uint8_t { Baseline, Avx2, Avx512 };  // x86-64, x86-64-v3, x86-64-v4
constexpr int kIsaCount = 3;

const char* name(Isa isa);
bool available(Isa isa);  // on this host
// Configuration::isa as a limit; an empty name sets none. Nothing for a name that is not one.
std::optional<Isa> isa_limit(std::string_view name);
Isa active_isa();  // the best that host and configuration allow

}  // namespace openspyre
