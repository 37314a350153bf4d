// Runs a contraction: cuts C into tasks for the worker pool, and each task into cache blocks for the kernels.
// The sums of a task stay in fp32 scratch from block to block of k, so that blocking leaves each one chain (N5).
#include "steps/contract.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "kernels/contract_kernels.h"
#include "steps/vector_code.h"
#include "streams/workers.h"

namespace openspyre {
namespace contract {
namespace {

constexpr int64_t kColumnUnit = 64;  // whole sticks of every format and whole panels of every kernel
constexpr int64_t kRowsAhead = 32;
constexpr int64_t kStickFloats = kStickBytes / sizeof(float);
constexpr int64_t kWholeFloats = 32 << 10;
constexpr int64_t kPitchPad = 16;  // keeps rows of A from falling into the same cache sets

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }
int64_t round_up(int64_t value, int64_t unit) { return divide_up(value, unit) * unit; }

// Floats that a thread keeps from task to task; grows to what the largest one needed.
class Scratch {
 public:
  float* at_least(int64_t floats) {
    if (floats > size_) {
      memory_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, round_up(floats * sizeof(float), kAlignment))));
      size_ = memory_ ? floats : 0;
      if (!memory_) throw std::bad_alloc();
    }
    return memory_.get();
  }

 private:
  static constexpr size_t kAlignment = 4096;
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float[], Free> memory_;
  int64_t size_ = 0;
};

thread_local Scratch scratch;
thread_local std::vector<int64_t> row_ends;  // of A, where only zeros follow

// What elements of an operand go through, with the lanes of its constants.
struct OperandCode {
  struct alignas(64) Constant {
    Lane lanes[kChunkLanes];
  };
  CompiledCode code;
  std::vector<Constant> constants;

  OperandCode(const VectorCode& of, Isa isa) {
    const CodeInput element{RegisterType::Float, false};
    code = compile(of, {&element, 1}, vector_kernels(isa));
    for (const auto& constant : code.constants) std::fill_n(constants.emplace_back().lanes, kChunkLanes, constant.bits);
  }

  void apply(float* values, int64_t count) const {
    Slots slots = RegisterFile::mine().slots();
    for (size_t i = 0; i < constants.size(); ++i)
      slots[code.constants[i].target] = const_cast<Lane*>(constants[i].lanes);
    int64_t first = 0;
    // A single operation reads a vector before it writes it: it may work in place.
    for (Slots here = slots; code.operations.size() == 1 && first + kLaneUnit <= count;) {
      const int64_t lanes = std::min((count - first) / kLaneUnit * kLaneUnit, kChunkLanes);
      here[code.inputs[0]] = here[code.results[0]] = reinterpret_cast<Lane*>(values + first);
      execute(code, here, lanes);
      first += lanes;
    }
    for (int64_t done = first, lanes; done < count; done += lanes) {
      lanes = std::min(count - done, kChunkLanes);
      std::memcpy(slots[code.inputs[0]], values + done, static_cast<size_t>(lanes) * sizeof(float));
      execute(code, slots, round_up(lanes, kLaneUnit));
      std::memcpy(values + done, slots[code.results[0]], static_cast<size_t>(lanes) * sizeof(float));
    }
  }
};

struct OperandCodes {
  std::optional<OperandCode> a, b;

  OperandCodes(const Plan& plan, Isa isa) {
    if (plan.a_code) a.emplace(*plan.a_code, isa);
    if (plan.b_code) b.emplace(*plan.b_code, isa);
  }
};

struct Bases {
  const std::byte *a, *b;
  std::byte* c;
};

// Whether each result has so little to sum that handing out sticks would cost more.
bool is_shallow(const Plan& plan) {
  return plan.m == 1 && plan.slices.size() == 2 && plan.k < kShallowRows && !plan.b_along_k && !plan.b_code;
}

// One block of C, [row, row + rows) x [column, column + columns), over all of k.
class Task {
 public:
  Task(const Plan& plan, const Kernels& kernels, const OperandCodes& codes, const Blocking& blocking, Bases bases)
      : plan_(plan),
        kernels_(kernels),
        codes_(codes),
        operand_(plan.operands == DataFormat::SEN169_FP16 ? kernels.sen169 : kernels.fp32),
        blocking_(blocking),
        bases_(bases),
        item_(device_itemsize(plan.operands)),
        stick_(elems_per_stick(plan.operands)),
        result_stick_(elems_per_stick(plan.result)) {}

  void run(int64_t row, int64_t rows, int64_t column, int64_t columns) {
    row_ = row, rows_ = rows, column_ = column, columns_ = columns;
    at_once_ = blocking_.stream && in_one_block();
    shallow_ = at_once_ && is_shallow(plan_);
    a_depth_ = at_once_ ? plan_.slices.back() - plan_.slices.front() : blocking_.depth;
    const int64_t sums_size = rows * (at_once_ && !shallow_ ? kColumnUnit : round_up(columns, kColumnUnit)),
                  slices = slice_count();
    const int64_t a_size = (blocking_.stream ? rows : blocking_.block_rows) * a_pitch();
    const int64_t b_size = blocking_.group_columns * blocking_.depth;
    const int64_t turned_size = plan_.b_along_k ? blocking_.depth * kStickFloats : 0;
    float* memory = scratch.at_least((slices > 1 ? 2 : 1) * sums_size + a_size + b_size + turned_size);
    float* total = memory;
    float* part = slices > 1 ? total + sums_size : total;
    a_ = part + sums_size;
    b_ = a_ + a_size;
    turned_ = reinterpret_cast<std::byte*>(b_ + b_size);
    if (shallow_) return stream_row(total);
    if (at_once_) return stream_whole(total, part);
    for (int64_t slice = 0; slice < slices; ++slice) {
      sums_ = slice == 0 ? total : part;
      add_slice(plan_.slices[static_cast<size_t>(slice)], plan_.slices[static_cast<size_t>(slice) + 1]);
      if (slice > 0)
        for (int64_t i = 0; i < sums_size; ++i) total[i] += part[i];
    }
    for (int64_t column = 0; column < columns_; column += result_stick_) store_stick(total + column * rows_, column);
  }

 private:
  int64_t slice_count() const { return static_cast<int64_t>(plan_.slices.size()) - 1; }
  int64_t block_end(int64_t k, int64_t end) const {  // up to which B is read in one go
    return plan_.b_along_k ? end : std::min(end, (k / plan_.b_block_rows + 1) * plan_.b_block_rows);
  }
  // Whether all of k is taken at once, so that a stick's sums are complete as soon as they are made. Rows of A that are
  // cut into slices anyhow are all widened before, if they stay in the cache.
  bool in_one_block() const {
    const int64_t begin = plan_.slices.front(), end = plan_.slices.back();
    if (begin == end || block_end(begin, end) < end || result_stick_ % stick_ != 0) return false;
    if (end - begin <= blocking_.depth) return true;
    return rows_ * (end - begin) <= kWholeFloats && plan_.slices[1] - begin <= blocking_.depth;
  }
  int64_t a_pitch() const { return a_depth_ + kPitchPad; }
  // `column` counts from the task's first, in whole panels.
  float* sums_at(int64_t column) const { return sums_ + column * rows_; }

  const std::byte* b_at(int64_t k, int64_t column) const {
    const int64_t row = plan_.b_along_k ? column_ + column : k, lane = plan_.b_along_k ? k : column_ + column;
    const int64_t offset = plan_.b_stick[static_cast<size_t>(lane / stick_)] + lane % stick_ +
                           plan_.b_block[static_cast<size_t>(row / plan_.b_block_rows)] +
                           row % plan_.b_block_rows * plan_.b_row_stride;
    return bases_.b + offset * item_;
  }

  // A stick of columns, as rows along n.
  StickRows b_rows(int64_t k, int64_t depth, int64_t column, bool cold) {
    if (!plan_.b_along_k) return {b_at(k, column), plan_.b_row_stride, depth, cold};
    const int64_t columns = std::min(stick_, columns_ - column);
    if (columns < stick_) std::memset(turned_, 0, static_cast<size_t>(depth * kStickBytes));
    for (int64_t done = 0, length; done < depth; done += length) {
      length = std::min(depth - done, stick_ - (k + done) % stick_);
      operand_.turn({b_at(k + done, column), plan_.b_row_stride, columns}, length, turned_ + done * kStickBytes);
    }
    return {turned_, stick_, depth};
  }

  void add_slice(int64_t begin, int64_t end) {
    if (begin == end) std::fill_n(sums_, rows_ * round_up(columns_, kColumnUnit), 0.0f);
    for (int64_t k = begin; k < end && !loops_abandoned();) {
      const int64_t limit = block_end(k, end), depth = std::min(limit - k, blocking_.depth);
      if (blocking_.stream)
        stream_depth(k, depth, k == begin, k + depth < limit);
      else
        add_depth(k, depth, k == begin, k + depth < limit);
      k += depth;
    }
  }

  // One block of rows: B is used as it is read.
  void stream_depth(int64_t k, int64_t depth, bool first, bool continues) {
    widen_block(0, rows_, k, depth);
    find_ends(rows_, depth);
    for (int64_t column = 0; column < columns_; column += stick_)
      stream_stick(k, depth, column, a_, sums_at(column), first, after(k, depth, column + stick_, continues));
  }

  // One row and little of k: all sticks at once.
  void stream_row(float* sums) {
    widen_block(0, 1, 0, plan_.k);
    operand_.stream_shallow({.a = a_,
                             .b = bases_.b + plan_.b_block.front() * item_,
                             .b_stride = plan_.b_row_stride,
                             .b_rows = plan_.k,
                             .sticks = plan_.b_stick.data() + column_ / stick_,
                             .count = divide_up(columns_, stick_),
                             .sums = sums});
    for (int64_t column = 0; column < columns_; column += result_stick_) store_stick(sums + column, column);
  }

  // All of k, slice by slice of a stick of columns, which is then stored.
  void stream_whole(float* total, float* part) {
    const int64_t begin = plan_.slices.front(), end = plan_.slices.back();
    widen_block(0, rows_, begin, end - begin);
    find_ends(rows_, end - begin);
    for (int64_t column = 0; column < columns_; column += stick_) {
      const int64_t within = column % result_stick_ * rows_;
      for (size_t slice = 0; slice + 1 < plan_.slices.size(); ++slice) {
        const int64_t k = plan_.slices[slice], next = plan_.slices[slice + 1];
        float* sums = (slice == 0 ? total : part) + within;
        const std::byte* ahead = after(begin, end - begin, column + stick_, false);
        stream_stick(k, next - k, column, a_ + (k - begin), sums, true, ahead);
        for (int64_t i = 0; i < rows_ * stick_ && slice > 0; ++i) total[within + i] += sums[i];
      }
      const int64_t done = std::min(column + stick_, columns_);
      if (done == columns_ || done % result_stick_ == 0) store_stick(total, (done - 1) / result_stick_ * result_stick_);
    }
  }

  void stream_stick(int64_t k, int64_t depth, int64_t column, const float* a, float* sums, bool first,
                    const std::byte* next) {
    if (plan_.b_along_k && rows_ <= kAlongRows && operand_.stream_along_k)
      return stream_along_k(k, depth, column, a, sums, first);
    const StickRows b = b_rows(k, depth, column, false);
    if (rows_ == 1 && !plan_.b_along_k) next = ahead_of_one_row(k, depth, column);
    operand_.stream({.a = a,
                     .a_pitch = a_pitch(),
                     .rows = rows_,
                     .ends = a == a_ && depth == a_widened_ ? ends_.data() : nullptr,
                     .b = b,
                     .ahead = next ? next : b.first,
                     .columns = std::min(stick_, columns_ - column),
                     .panel = b_,
                     .sums = sums,
                     .first = first});
  }

  // One row uses B so fast that it has to look further ahead: along k, or along n where there is little of k.
  const std::byte* ahead_of_one_row(int64_t k, int64_t depth, int64_t column) const {
    if (depth >= kRowsAhead) return b_at(k, column) + kRowsAhead * plan_.b_row_stride * item_;
    const int64_t there = column + kRowsAhead / std::max<int64_t>(depth, 1) * stick_;
    return b_at(k, there < columns_ ? there : column);
  }

  void stream_along_k(int64_t k, int64_t depth, int64_t column, const float* a, float* sums, bool first) {
    if (depth == 0 && first) std::fill_n(sums, rows_ * kColumnUnit, 0.0f);
    for (int64_t done = 0, length; done < depth; done += length) {
      length = std::min(depth - done, stick_ - (k + done) % stick_);
      operand_.stream_along_k({.a = a + done,
                               .a_pitch = a_pitch(),
                               .rows = rows_,
                               .b = {b_at(k + done, column), plan_.b_row_stride, std::min(stick_, columns_ - column)},
                               .lanes = length,
                               .sums = sums,
                               .first = first && done == 0});
    }
  }

  // Several blocks: B is widened to panels, a group of columns at a time, and used for all of them.
  void add_depth(int64_t k, int64_t depth, bool first, bool continues) {
    const int64_t blocks = divide_up(rows_, blocking_.block_rows);
    const int64_t height = divide_up(rows_, blocks);
    if (blocks == 1) widen_block(0, rows_, k, depth), find_ends(rows_, depth);
    for (int64_t column = 0; column < columns_; column += blocking_.group_columns) {
      const int64_t columns = std::min(blocking_.group_columns, columns_ - column);
      const bool zeros_add_nothing = fill(k, depth, column, columns);
      const std::byte* next = after(k, depth, column + columns, continues);
      for (int64_t row = 0; row < rows_; row += height) {
        const int64_t rows = std::min(height, rows_ - row);
        if (blocks > 1) widen_block(row, rows, k, depth), find_ends(rows, depth);
        multiply(depth, column, columns, row, rows, first, next, zeros_add_nothing);
      }
    }
  }

  // What is read of B after `depth` rows k up to `column`: the next columns, then the next rows of the first; or null,
  // also where B is turned: that looks ahead by itself.
  const std::byte* after(int64_t k, int64_t depth, int64_t column, bool continues) const {
    if (plan_.b_along_k) return nullptr;
    return column < columns_ ? b_at(k, column) : continues ? b_at(k + depth, 0) : nullptr;
  }

  // Rows of A in fp32. Stick by stick: the same stick of neighbouring rows lies close together.
  void widen_block(int64_t row, int64_t rows, int64_t k, int64_t depth) {
    const int64_t* offset = plan_.a_row.data() + row_ + row;
    for (int64_t done = 0, length; done < depth; done += length) {
      const int64_t lane = (k + done) % stick_;
      length = std::min(depth - done, stick_ - lane);
      const std::byte* from = bases_.a + (plan_.a_stick[static_cast<size_t>((k + done) / stick_)] + lane) * item_;
      for (int64_t i = 0; i < rows; ++i) {
        const std::byte* ahead = from + offset[std::min(i + kRowsAhead, rows - 1)] * item_;
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + kStickBytes / 2);
        operand_.widen(from + offset[i] * item_, a_ + i * a_pitch() + done, length);
      }
    }
    if (codes_.a && rows > 0) codes_.a->apply(a_, (rows - 1) * a_pitch() + depth);  // what lies between rows as well
  }

  // Where a row's zeros begin that go on to its end: a causal mask leaves many. Most rows tell at their last element.
  void find_ends(int64_t rows, int64_t depth) {
    constexpr int64_t kRun = 16;
    a_widened_ = depth;
    ends_.resize(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = a_ + i * a_pitch();
      int64_t end = depth;
      const auto zeros = [&](int64_t count) {
        uint32_t bits = 0;
        for (int64_t j = 1; j <= count; ++j) bits |= std::bit_cast<uint32_t>(row[end - j]);
        return (bits & INT32_MAX) == 0;
      };
      while (end >= kRun && zeros(1) && zeros(kRun)) end -= kRun;
      ends_[static_cast<size_t>(i)] = end;
    }
  }

  // Whether zeros of A add nothing: what B's code makes of it nobody watches.
  bool fill(int64_t k, int64_t depth, int64_t column, int64_t columns) {
    bool zeros_add_nothing = !codes_.b;
    for (int64_t done = 0; done < columns; done += stick_)
      zeros_add_nothing &= operand_.fill_panels(b_rows(k, depth, column + done, done > 0),
                                                std::min(stick_, columns - done), b_ + done * depth);
    if (codes_.b) codes_.b->apply(b_, round_up(columns, kernels_.panel_columns) * depth);
    return zeros_add_nothing;
  }

  void multiply(int64_t depth, int64_t column, int64_t columns, int64_t row, int64_t rows, bool first,
                const std::byte* next, bool zeros_add_nothing) {
    const int64_t panel = kernels_.panel_columns;
    kernels_.multiply({.a = a_,
                       .a_pitch = a_pitch(),
                       .rows = rows,
                       .ends = zeros_add_nothing ? ends_.data() : nullptr,
                       .b = b_,
                       .panels = divide_up(columns, panel),
                       .k = depth,
                       .sums = sums_at(column) + row * panel,
                       .sums_rows = rows_,
                       .first = first,
                       .ahead = reinterpret_cast<const char*>(next),
                       .ahead_row_bytes = plan_.b_row_stride * item_,
                       .ahead_rows = next ? depth : 0});
  }

  void store_stick(const float* sums, int64_t column) const {
    const bool narrow = plan_.result == DataFormat::SEN169_FP16;
    const int64_t stick = result_stick_;
    const int64_t offset = plan_.c_stick[static_cast<size_t>((column_ + column) / stick)];
    const StickStore store = {sums, rows_, bases_.c + offset * device_itemsize(plan_.result), plan_.c_row.data() + row_,
                              std::min(stick, columns_ - column)};
    (narrow ? operand_.store_sen169 : operand_.store_fp32)(store);
  }

  const Plan& plan_;
  const Kernels& kernels_;
  const OperandCodes& codes_;
  const OperandKernels& operand_;
  const Blocking& blocking_;
  const Bases bases_;
  const int64_t item_, stick_, result_stick_;
  int64_t row_ = 0, rows_ = 0, column_ = 0, columns_ = 0;
  int64_t a_depth_ = 0;    // of k that is widened of A at a time
  int64_t a_widened_ = 0;  // of k, the last time
  std::vector<int64_t>& ends_ = row_ends;
  bool at_once_ = false, shallow_ = false;
  float *a_ = nullptr, *b_ = nullptr, *sums_ = nullptr;
  std::byte* turned_ = nullptr;  // sticks along n
};

}  // namespace

const Kernels& kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::Avx512) return avx512_kernels();
  if (isa == Isa::Avx2) return avx2_kernels();
#endif
  (void)isa;
  return baseline_kernels();
}

Blocking choose_blocking(const Plan& plan, int threads) {
  constexpr int64_t kStreamRows = 512, kLowRows = 64, kBlockRows = 192, kTaskRows = 1024, kTileRows = 12;
  Blocking blocking;
  blocking.stream = plan.m <= kStreamRows && !plan.b_code;
  const int64_t row_tasks = divide_up(std::max<int64_t>(plan.m, 1), kTaskRows);
  blocking.task_rows = row_tasks == 1 ? plan.m : round_up(divide_up(plan.m, row_tasks), kTileRows);
  blocking.block_rows = std::min(blocking.task_rows, kBlockRows);
  const int64_t deepest = plan.m == 1 && !plan.b_along_k ? plan.k : plan.m <= kLowRows ? 128 : 256;
  blocking.depth = std::max<int64_t>(1, std::min(plan.k, deepest));
  const int64_t other_tasks = static_cast<int64_t>(plan.batches.size()) * row_tasks;
  const int64_t wanted_tasks = threads == 1 ? 1 : 4 * threads;  // several per thread, to even out
  const int64_t column_tasks = divide_up(wanted_tasks, other_tasks);
  const int64_t widest = is_shallow(plan) ? 4096 : blocking.stream ? 512 : 1024;
  blocking.task_columns = std::min(widest, round_up(divide_up(plan.n, column_tasks), kColumnUnit));
  blocking.group_columns = blocking.stream ? kColumnUnit : blocking.task_columns;
  return blocking;
}

void run(const Plan& plan, const void* a, const void* b, void* c, Isa isa) {
  if (plan.m > 0 && plan.n > 0) run(plan, a, b, c, isa, choose_blocking(plan, worker_threads()));
}

void run(const Plan& plan, const void* a, const void* b, void* c, Isa isa, const Blocking& blocking) {
  const Kernels& chosen = kernels(isa);
  const OperandCodes codes(plan, isa);
  const int64_t item = device_itemsize(plan.operands), c_item = device_itemsize(plan.result);
  const int64_t row_tasks = divide_up(plan.m, blocking.task_rows),
                column_tasks = divide_up(plan.n, blocking.task_columns);
  // Tasks that share columns of B follow each other.
  parallel_for(plan.batches.size() * static_cast<size_t>(row_tasks * column_tasks), [&](size_t index) {
    const int64_t i = static_cast<int64_t>(index);
    const Plan::Batch& batch = plan.batches[static_cast<size_t>(i / (row_tasks * column_tasks))];
    const Bases bases = {static_cast<const std::byte*>(a) + batch.a * item,
                         static_cast<const std::byte*>(b) + batch.b * item,
                         static_cast<std::byte*>(c) + batch.c * c_item};
    const int64_t row = i % row_tasks * blocking.task_rows,
                  column = i / row_tasks % column_tasks * blocking.task_columns;
    Task(plan, chosen, codes, blocking, bases)
        .run(row, std::min(blocking.task_rows, plan.m - row), column, std::min(blocking.task_columns, plan.n - column));
  });
}

}  // namespace contract

void run_contract(const Step& step, const StepArguments& arguments, CoreRange cores) {
  const auto run_box = [&](const CoreBox& box) {
    contract::run(contract::plan(step, box), arguments.inputs[0], arguments.inputs[1], arguments.outputs[0],
                  active_isa());
  };
  // All cores at once are one large contraction: operands are widened once, not once per core.
  if (cores.count == core_count(step)) {
    CoreBox whole;
    for (size_t i = 0; i < step.loops.size(); ++i) whole.extent[i] = step.loops[i].extent;
    return run_box(whole);
  }
  for (int core = cores.first; core < cores.first + cores.count; ++core) run_box(core_box(step, core));
}

}  // namespace openspyre
