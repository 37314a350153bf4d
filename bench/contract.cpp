// Times the card's contraction kernels alone: C[M, N] = A[M, K] B[K, N] in SEN169, default layouts.
//   contract [isa [M K N [along-k]]]      isa: baseline, avx2, avx512; along-k: B's sticks; threads: OPENSPYRE_THREADS
// Built on demand: g++ -std=c++20 -O2 -Icsrc/card bench/contract.cpp -lopenspyre_card. As a shared library it offers
// `contract_once` to a process that times torch in turn.
#include "steps/contract.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "streams/card.h"

using namespace openspyre;

namespace {

constexpr int64_t kStick = 64;

// Loops m, n blocks, k blocks over the default layouts [K/64][M][64], [N/64][K][64] and [N/64][M][64].
Step matmul(int64_t m, int64_t k, int64_t n, bool b_along_k = false) {
  const int64_t k_blocks = (k + kStick - 1) / kStick, n_blocks = (n + kStick - 1) / kStick;
  Step step;
  step.name = "mm";
  step.kind = StepKind::Contract;
  step.loops = {{m, 1, false}, {n_blocks, 1, false}, {k_blocks, 1, true}};
  step.lane = {.lanes = kStick, .extent = n, .block_loop = 1};
  step.k_extent = k;
  step.b_row_stride = kStick;
  step.inputs.resize(2);
  step.outputs.resize(1);
  step.inputs[0].stride = {kStick, 0, m * kStick};
  step.inputs[1].stride = {0, k * kStick, kStick * kStick};
  if (b_along_k) step.inputs[1].stride = {0, kStick * kStick, n * kStick};
  step.b_along_k = b_along_k;
  step.outputs[0].stride = {kStick, m * kStick, 0};
  return step;
}

CoreBox whole(const Step& step) {
  CoreBox box;
  for (size_t i = 0; i < step.loops.size(); ++i) box.extent[i] = step.loops[i].extent;
  return box;
}

std::vector<uint16_t> random_codes(int64_t rows, int64_t columns) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> codes(static_cast<size_t>((columns + kStick - 1) / kStick * rows * kStick));
  for (uint16_t& code : codes) code = sen169_from_float(normal(random));
  return codes;
}

double best_seconds(int64_t m, int64_t k, int64_t n, bool b_along_k, Isa isa) {
  const std::vector<uint16_t> a = random_codes(m, k), b = b_along_k ? random_codes(n, k) : random_codes(k, n);
  std::vector<uint16_t> c = random_codes(m, n);
  const Step step = matmul(m, k, n, b_along_k);
  double best = 1e9;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    contract::run(contract::plan(step, whole(step)), a.data(), b.data(), c.data(), isa);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void report(int64_t m, int64_t k, int64_t n, Isa isa, bool b_along_k = false) {
  const double seconds = best_seconds(m, k, n, b_along_k, isa);
  const double work = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  std::printf("%6ld x %6ld x %6ld  %9.3f ms  %7.1f GFLOP/s  %6.1f GB/s of B\n", m, k, n, seconds * 1e3,
              work / seconds * 1e-9, 2.0 * static_cast<double>(k) * static_cast<double>(n) / seconds * 1e-9);
}

}  // namespace

extern "C" void contract_once(const void* a, const void* b, void* c, int64_t m, int64_t k, int64_t n, int isa) {
  const Step step = matmul(m, k, n);
  contract::run(contract::plan(step, whole(step)), a, b, c, static_cast<Isa>(isa));
}

int main(int argc, char** argv) {
  const Isa isa = isa_limit(argc > 1 ? argv[1] : "").value_or(active_isa());
  if (!available(isa)) return std::printf("this host has no %s\n", name(isa)), 1;
  Configuration configuration;
  if (const char* threads = std::getenv("OPENSPYRE_THREADS")) configuration.threads = std::atoi(threads);
  configure(configuration);
  if (argc >= 5) return report(std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4]), isa, argc == 6), 0;
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{4096, 4096}, {4096, 11008}, {11008, 4096}, {4096, 14336}})
    for (const int64_t m : {1, 4, 8, 16, 64, 256, 1024}) report(m, k, n, isa);
}
