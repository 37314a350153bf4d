#include "kernels/isa.h"

#include "streams/card.h"

namespace openspyre {

const char* name(Isa isa) {
  constexpr const char* kNames[kIsaCount] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

bool available(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::Avx2) return __builtin_cpu_supports("x86-64-v3") != 0;
  if (isa == Isa::Avx512) return __builtin_cpu_supports("x86-64-v4") != 0;
#endif
  return isa == Isa::Baseline;
}

std::optional<Isa> isa_limit(std::string_view wanted) {
  if (wanted.empty()) return Isa::Avx512;
  for (int i = 0; i < kIsaCount; ++i)
    if (wanted == name(static_cast<Isa>(i))) return static_cast<Isa>(i);
  return std::nullopt;
}

Isa active_isa() {
  auto isa = isa_limit(configuration().isa).value_or(Isa::Baseline);
  while (!available(isa)) isa = static_cast<Isa>(static_cast<int>(isa) - 1);
  return isa;
}

}  // namespace openspyre
