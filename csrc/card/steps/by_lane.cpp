// Row by row: sticks of a row lie far apart in memory, at distances that a cache maps to the same few lines. So the
// rows of a table that its lanes go through at random are brought together first, and those of a target back
// afterwards.
#include "steps/by_lane.h"

#include "steps/indexed.h"
#include "streams/task_split.h"

namespace openspyre {
namespace {

// The elements of a row that a block's indices name; of rows that share their indices, found once.
struct Places {
  alignas(64) std::array<Lane, kChunkLanes> at;
  const std::byte* indices = nullptr;
};

// To the steps of SEN169, as a float: what float_to_sen169 stores, read again. Nearly all numbers go the short way.
inline float rounded_to_sen169(float value) {
  constexpr uint32_t kSmallest = (96u << 23) + 0x4000u, kRange = (63u << 23) - 0x4000u;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits & 0x7FFFFFFFu) + 0x2000u;
  if (rounded - kSmallest < kRange) [[likely]]
    return std::bit_cast<float>((bits & 0x80000000u) | (rounded & ~0x3FFFu));
  return sen169_to_float(float_to_sen169(value));
}

class ByLaneStep final : public IndexedStep {
 public:
  ByLaneStep(const Step& step, Isa isa)
      : IndexedStep(step, isa), reads_(step.kind == StepKind::Gather), strides_(stream_strides(step)) {
    const Operand& table = reads_ ? step.inputs[0] : step.outputs[0];
    other_ = reads_ ? store_ : values_;
    old_ = load_port(table, step.lane.lanes, kernels_);
    itemsize_ = reads_ ? values_.itemsize : store_.itemsize;
    const int64_t stick = elems_per_stick(table.element.format);
    sticks_ = (step.index_bound + stick - 1) / stick;
    stick_bytes_ = stick * itemsize_;
    tile_ = table.tile_stride * itemsize_;
    row_bytes_ = step.index_bound * itemsize_;
    together_ = step.index_stride == 0 && sticks_ > kNearSticks && row_bytes_ <= kMostTogether &&
                step.lane.extent * kFewLanes >= step.index_bound && (!reads_ || rows_apart());
    chosen_ = ChosenElement(table, step.index_stride, itemsize_);
    wide_ = together_ && step.accumulate && is_sen169(table) && values_.load != nullptr && store_.store != nullptr;
    brought_stick_ = wide_ ? stick * int64_t{sizeof(float)} : stick_bytes_;
    pitch_ = sticks_ * brought_stick_ + kLine;
    for (size_t k = 0; k < step.loops.size(); ++k)
      if (static_cast<int>(k) != step.lane.block_loop) rows_.push_back(static_cast<int>(k));
    sort_by_stride(strides_, table_stream(), rows_);
    if (step.lane.block_loop >= 0) block_strides_ = strides_[static_cast<size_t>(step.lane.block_loop)];
    nest_ = make_nest(strides_, core_box(step, 0), rows_);
  }

  bool serves() const {
    const bool plain = step_.inputs[1].element.format == DataFormat::IEEE_INT32;
    const Port& table = reads_ ? values_ : store_;
    const bool fits = other_.kind == OperandKind::Vector || (!reads_ && other_.kind == OperandKind::Splat);
    return is_copy_ && plain && step_.index_bound <= INT32_MAX && table.kind == OperandKind::Splat && fits &&
           !step_.lane.store_padding && (reads_ || rows_apart()) && (!step_.accumulate || adds());
  }

  void run(const StepArguments& arguments, CoreRange cores) const override {
    const TaskSplit split(cores.count, nest_.points(), kMostRows, step_.lane.extent);
    split.run([&](int core, int64_t first, int64_t last) {
      const CoreBox box = core_box(step_, cores.first + core);
      NestWalk walk(nest_, stream_base(strides_, box), first);
      std::byte* table =
          reads_ ? const_cast<std::byte*>(arguments.inputs[0]) : arguments.outputs[0];  // not written then
      Group group{box, table, std::vector<Line>(together_ ? static_cast<size_t>(group_rows() * pitch_ / kLine) : 0),
                  {},  0,     false,
                  {}};
      for (int64_t left = last - first; left > 0; left -= group.rows) {
        group.rows = static_cast<int>(std::min(group_rows(), left));
        walk.next(group.rows, 3, group.offsets);
        group.places.indices = nullptr;
        run_group(arguments, group);
      }
    });
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kMostRows = 16, kNearSticks = 4, kFewLanes = 8, kAhead = 3;
  static constexpr int64_t kGroupBytes = 32 << 10, kMostTogether = 256 << 10;

  struct alignas(kLine) Line {
    std::array<std::byte, kLine> bytes;
  };
  struct Group {
    CoreBox box;
    std::byte* table;
    std::vector<Line> brought;  // rows of the table, `pitch_` apart
    ChunkOffsets offsets;
    int rows;
    bool together;
    Places places;
    std::byte* brought_row(int r, int64_t pitch) { return reinterpret_cast<std::byte*>(brought.data()) + r * pitch; }
  };

  size_t table_stream() const { return reads_ ? 0 : 2; }
  int64_t group_rows() const { return together_ ? std::clamp<int64_t>(kGroupBytes / pitch_, 1, kMostRows) : kMostRows; }

  // Whether no two rows that are walked are the same of the table.
  bool rows_apart() const {
    for (size_t k = 0; k < step_.loops.size(); ++k)
      if (static_cast<int>(k) != step_.lane.block_loop && step_.loops[k].extent > 1 && strides_[k][table_stream()] == 0)
        return false;
    return true;
  }

  bool adds() const {
    const DataFormat format = step_.outputs[0].element.format;
    return format == DataFormat::IEEE_FP32 || format == DataFormat::IEEE_INT32 ||
           (format == DataFormat::SEN169_FP16 && register_type(step_.outputs[0]) == RegisterType::Float);
  }

  void run_group(const StepArguments& arguments, Group& group) const {
    group.together = together_ && bring(group);
    if (reads_) return read_group(arguments, group);
    write_group(arguments, group);
    if (group.together) send_back(group);
  }

  void read_group(const StepArguments& arguments, Group& group) const {
    switch (itemsize_) {
      case 1:
        return pick<uint8_t>(arguments, group);
      case 2:
        return pick<uint16_t>(arguments, group);
      default:
        return pick<uint32_t>(arguments, group);
    }
  }

  void write_group(const StepArguments& arguments, Group& group) const {
    if (!step_.accumulate) {
      const auto set = [](auto, auto added) { return added; };
      switch (itemsize_) {
        case 1:
          return combine<uint8_t>(arguments, group, set);
        case 2:
          return combine<uint16_t>(arguments, group, set);
        default:
          return combine<uint32_t>(arguments, group, set);
      }
    }
    const auto sum = [](auto old, auto added) { return old + added; };  // integers wrap: they are unsigned here
    switch (step_.outputs[0].element.format) {
      case DataFormat::IEEE_FP32:
        return combine<float>(arguments, group, sum);
      case DataFormat::IEEE_INT32:
        return combine<uint32_t>(arguments, group, sum);
      default:
        if (wide_ && group.together) return add_wide(arguments, group);
        return combine<uint16_t>(arguments, group, [](uint16_t old, uint16_t added) {
          return float_to_sen169(sen169_to_float(old) + sen169_to_float(added));
        });
    }
  }

  template <typename Code>
  void pick(const StepArguments& arguments, Group& group) const {
    each_run<Code>(arguments, group, [&](int64_t other, const Lane* places, int n, auto&& place) {
      std::byte* target = arguments.outputs[0] + other;
      for (int i = 0; i < n; ++i) std::memcpy(target + i * int64_t{sizeof(Code)}, place(places[i]), sizeof(Code));
    });
  }

  // Equal indices meet in the order of the lanes.
  template <typename Code, typename Combine>
  void combine(const StepArguments& arguments, Group& group, Combine&& combine) const {
    const int64_t step = other_.kind == OperandKind::Splat ? 0 : int64_t{sizeof(Code)};
    each_run<Code>(arguments, group, [&](int64_t other, const Lane* places, int n, auto&& place) {
      const std::byte* value = arguments.inputs[0] + other;
      for (int i = 0; i < n; ++i) {
        Code old, added;
        std::byte* at = place(places[i]);
        std::memcpy(&old, at, sizeof old);
        std::memcpy(&added, value + i * step, sizeof added);
        const Code next = combine(old, added);
        std::memcpy(at, &next, sizeof next);
      }
    });
  }

  // Sums of SEN169 numbers: the rows that were brought together are floats, each sum rounded before the next is added
  // (N3).
  void add_wide(const StepArguments& arguments, Group& group) const {
    const bool splat = other_.kind == OperandKind::Splat;
    each_run<float>(arguments, group, [&](int64_t other, const Lane* places, int n, auto&& place) {
      alignas(64) std::array<Lane, kChunkLanes> added;
      if (splat)
        load_blocks(values_, arguments.inputs[0], &other, 1, added.data());
      else
        values_.load(arguments.inputs[0] + other, added.data(), other_.stick_lanes);
      for (int i = 0; i < n; ++i) {
        float old;
        std::byte* at = place(places[i]);
        std::memcpy(&old, at, sizeof old);
        const float next = rounded_to_sen169(old + std::bit_cast<float>(added[static_cast<size_t>(i)]));
        std::memcpy(at, &next, sizeof next);
      }
    });
  }

  int64_t row(const Group& group, int r) const { return group.offsets.at[table_stream()][static_cast<size_t>(r)]; }

  // body(where the other operand goes on, elements named, how many, where an element is) for all sticks of all blocks.
  template <typename Code, typename Body>
  void each_run(const StepArguments& arguments, Group& group, Body&& body) const {
    const auto loop = static_cast<size_t>(std::max(step_.lane.block_loop, 0));
    const int64_t begin = step_.lane.block_loop < 0 ? 0 : group.box.begin[loop];
    const int64_t blocks = step_.lane.block_loop < 0 ? 1 : group.box.extent[loop];
    const size_t other = 2 - table_stream();
    const int stick = other_.kind == OperandKind::Splat ? step_.lane.lanes : other_.stick_lanes;
    for (int64_t b = 0; b < blocks; ++b) {
      const int valid =
          static_cast<int>(std::min<int64_t>(step_.lane.lanes, step_.lane.extent - (begin + b) * step_.lane.lanes));
      if (b + kAhead < blocks) prefetch_block(arguments, group, b + kAhead);
      for (int r = 0; r < group.rows; ++r) {
        const auto place = static_cast<size_t>(r);
        const int64_t from = group.offsets.at[other][place] + b * block_strides_[other];
        find(arguments.inputs[1] + group.offsets.at[1][place] + b * block_strides_[1], valid, group.places);
        std::byte* brought = group.brought_row(r, pitch_);
        std::byte* table = group.table + row(group, r);
        const ChosenElement chosen = chosen_;
        for (int lane = 0; lane < valid; lane += stick) {
          const int64_t at = from + lane / stick * other_.tile_stride;
          const Lane* places = group.places.at.data() + lane;
          const int n = std::min(stick, valid - lane);
          if (group.together)
            body(at, places, n, [=](Lane i) { return brought + int64_t{i} * int64_t{sizeof(Code)}; });
          else
            body(at, places, n, [=](Lane i) { return table + chosen(i); });
        }
      }
    }
  }

  // The next block lies elsewhere: the host would not see it coming.
  void prefetch_block(const StepArguments& arguments, const Group& group, int64_t b) const {
    const size_t other = 2 - table_stream();
    const std::byte* others = reads_ ? arguments.outputs[0] : arguments.inputs[0];
    for (size_t r = 0; r < static_cast<size_t>(group.rows); ++r) {
      prefetch_sticks(arguments.inputs[1] + group.offsets.at[1][r] + b * block_strides_[1], index_);
      if (other_.kind == OperandKind::Vector)
        prefetch_sticks(others + group.offsets.at[other][r] + b * block_strides_[other], other_);
    }
  }

  void prefetch_sticks(const std::byte* block, const Port& port) const {
    for (int lane = 0; lane < step_.lane.lanes; lane += port.stick_lanes)
      prefetch_stick(block + lane / port.stick_lanes * port.tile_stride);
  }

  static void prefetch_stick(const std::byte* stick) {
    for (int64_t line = 0; line < kStickBytes; line += 64) __builtin_prefetch(stick + line);
  }

  void find(const std::byte* indices, int valid, Places& places) const {
    if (indices == places.indices) return;
    const auto bound = static_cast<Lane>(step_.index_bound);
    places.indices = indices;
    bool inside = true;
    for (int lane = 0; lane < valid; lane += index_.stick_lanes) {
      const std::byte* stick = indices + lane / index_.stick_lanes * index_.tile_stride;
      Lane* found = places.at.data() + lane;
      const int n = std::min(index_.stick_lanes, valid - lane);
      std::memcpy(found, stick, static_cast<size_t>(n) * sizeof(Lane));
      Lane outside = 0;
      for (int i = 0; i < n; ++i) {
        found[i] += found[i] < bound ? 0 : bound;
        outside |= found[i] < bound ? 0 : 1;
      }
      inside &= outside == 0;
    }
    if (!inside) refuse_one(indices, valid);
  }

  void refuse_one(const std::byte* indices, int valid) const {
    for (int lane = 0; lane < valid; ++lane) {
      Lane index;
      const int64_t stick = lane / index_.stick_lanes * index_.tile_stride;
      std::memcpy(&index, indices + stick + lane % index_.stick_lanes * int64_t{sizeof index}, sizeof index);
      checked(index);
    }
  }

  // Calls copy(stick of a row in memory, in the group, bytes) along the sticks, which are side by side from row to row.
  template <typename Copy>
  void each_stick(Group& group, Copy&& copy) const {
    for (int64_t s = 0; s < sticks_; ++s)
      for (int r = 0; r < group.rows; ++r) {
        std::byte* at = group.table + row(group, r) + s * tile_;
        if (s + kAhead < sticks_) prefetch_stick(at + kAhead * tile_);
        copy(at, group.brought_row(r, pitch_) + s * brought_stick_,
             static_cast<size_t>(std::min(stick_bytes_, row_bytes_ - s * stick_bytes_)));
      }
  }

  // Whether all could be brought: a NaN with a sign, which no step stores, would come back without it.
  bool bring(Group& group) const {
    bool whole = true;
    each_stick(group, [&](const std::byte* at, std::byte* here, size_t bytes) {
      if (!wide_) {
        std::memcpy(here, at, bytes);
        return;
      }
      old_.load(at, reinterpret_cast<Lane*>(here), old_.stick_lanes);
      std::array<uint16_t, kStickBytes / sizeof(uint16_t)> codes;
      std::memcpy(codes.data(), at, sizeof codes);
      uint16_t signs = 0;
      for (const uint16_t code : codes) signs |= code == (kSen169NaN | 0x8000u) ? 1 : 0;
      whole &= signs == 0;
    });
    return whole;
  }

  void send_back(Group& group) const {
    if (wide_)
      return each_stick(group, [this](std::byte* at, const std::byte* here, size_t bytes) {
        alignas(64) std::array<std::byte, kStickBytes> codes;
        store_.store(reinterpret_cast<const Lane*>(here), codes.data(), old_.stick_lanes);
        std::memcpy(at, codes.data(), bytes);
      });
    each_stick(group, [](std::byte* at, const std::byte* here, size_t bytes) { std::memcpy(at, here, bytes); });
  }

  bool reads_, together_ = false, wide_ = false;
  std::vector<StreamOffsets> strides_;
  StreamOffsets block_strides_{};
  std::vector<int> rows_;
  Nest nest_;
  Port other_, old_;
  ChosenElement chosen_;
  int64_t itemsize_ = 0, sticks_ = 0, stick_bytes_ = 0, tile_ = 0, row_bytes_ = 0, brought_stick_ = 0, pitch_ = 0;
};

}  // namespace

PreparedStepPtr prepare_by_lane(const Step& step, Isa isa) {
  if (step.inputs[1].kind != OperandKind::Vector) return nullptr;
  auto made = std::make_unique<ByLaneStep>(step, isa);
  return made->serves() ? std::move(made) : nullptr;
}

}  // namespace openspyre
