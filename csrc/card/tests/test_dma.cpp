// DMA against a naive oracle: every element is placed one by one, by the definition of the layout.
#include <cstring>
#include <new>

#include "check.h"
#include "dma/dma.h"
#include "dma/dma_plan.h"
#include "kernels/isa.h"
#include "random_tensors.h"
#include "streams/card.h"

using namespace openspyre;
using namespace openspyre::testing;

namespace {

constexpr std::byte kUntouched{0xA5};

// Memory of buffers begins at a stick, as the card's does.
template <typename Item>
struct OnSticks {
  using value_type = Item;
  static constexpr std::align_val_t kAlignment{kStickBytes};
  Item* allocate(size_t n) { return static_cast<Item*>(::operator new(n * sizeof(Item), kAlignment)); }
  void deallocate(Item* items, size_t) { ::operator delete(items, kAlignment); }
  bool operator==(const OnSticks&) const = default;
};
using Bytes = std::vector<std::byte, OnSticks<std::byte>>;

// A buffer in host memory together with the oracle's knowledge of where its elements are.
struct Buffer {
  ShapePtr shape;
  std::vector<int64_t> places;  // host offset -> device element, -1 in gaps
  Bytes memory;

  std::byte* at(int64_t host_offset) {
    return memory.data() + places.at(static_cast<size_t>(host_offset)) * itemsize();
  }
  int64_t itemsize() const { return device_itemsize(shape->layout().format); }
  DeviceView view(const View& view) {
    return {shape, memory.data(), shape->dtype(), view.offset, view.size, view.stride};
  }
  View whole() const { return {shape->host_size(), shape->host_stride(), 0}; }
};

Buffer make_buffer(ShapePtr shape, std::vector<int64_t> places) {
  Buffer buffer{std::move(shape), std::move(places), {}};
  buffer.memory.assign(static_cast<size_t>(buffer.shape->device_bytes()), kUntouched);
  return buffer;
}

Sizes random_order(Random& random, size_t rank) {
  Sizes order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (random.chance(50)) std::shuffle(order.begin(), order.end(), random.engine);
  if (rank < 6 && random.chance(10)) order.push_back(-1);
  return order;
}

Buffer tiled_buffer(const View& host, DType dtype, const Sizes& order) {
  const Layout layout = tiled_layout(host.size, host.stride, device_format(dtype), order);
  return make_buffer(intern(host.size, host.stride, dtype, layout), place_by_rule(host, layout, order));
}

Buffer explicit_buffer(const View& host, DType dtype, const Layout& layout) {
  return make_buffer(intern(host.size, host.stride, dtype, layout), place_by_search(host, layout));
}

Buffer random_buffer(Random& random, DType dtype, const Sizes& size) {
  return tiled_buffer({size, random_strides(random, size, 15), 0}, dtype, random_order(random, size.size()));
}

struct HostTensor {
  View view;
  DType dtype;
  Bytes memory;
  HostView as_view() { return {memory.data() + view.offset * host_itemsize(dtype), dtype, view.size, view.stride}; }
  std::byte* at(const Sizes& index) {
    return memory.data() + (view.offset + dot(index, view.stride)) * host_itemsize(dtype);
  }
};

void fill(Random& random, Bytes& memory) {
  for (size_t i = 0; i < memory.size(); i += 4) {
    const auto word = static_cast<uint32_t>(random.engine());
    std::memcpy(&memory[i], &word, std::min<size_t>(4, memory.size() - i));
  }
}

HostTensor random_host(Random& random, DType dtype, const Sizes& size) {
  HostTensor host{{size, random_strides(random, size, 20), random.below(5)}, dtype, {}};
  host.memory.resize(static_cast<size_t>(span_of(host.view) * host_itemsize(dtype)));
  fill(random, host.memory);
  if (dtype == DType::Int64) {  // within int32
    for (size_t i = 0; i < host.memory.size(); i += 8) {
      const int64_t value = static_cast<int32_t>(random.engine());
      std::memcpy(&host.memory[i], &value, 8);
    }
  }
  return host;
}

DType random_dtype(Random& random) { return static_cast<DType>(random.below(kDTypeCount)); }

DType random_device_dtype_for(Random& random, DType host) { return random.chance(70) ? host : random_dtype(random); }

int64_t offset_of(const View& view, const Sizes& index) { return view.offset + dot(index, view.stride); }

void write_everywhere(Buffer& buffer, int64_t host_offset, const std::byte* code) {
  std::vector<int64_t> shifts{0};
  for (const Digit& replica : buffer.shape->replicas()) {
    std::vector<int64_t> more;
    for (int64_t shift : shifts) {
      for (int64_t i = 0; i < replica.count; ++i) more.push_back(shift + i * replica.device_stride);
    }
    shifts = more;
  }
  for (int64_t shift : shifts) {
    std::memcpy(buffer.at(host_offset) + shift * buffer.itemsize(), code, static_cast<size_t>(buffer.itemsize()));
  }
}

void check_in(Buffer& buffer, const View& view, HostTensor& host) {
  Buffer expected = buffer;
  const Convert convert = to_device(host.dtype, buffer.shape->element());
  std::byte code[8];
  each_index(view.size, [&](const Sizes& index) {
    convert(host.at(index), code, 1);
    write_everywhere(expected, offset_of(view, index), code);
  });
  copy_in(host.as_view(), buffer.view(view));
  CHECK(buffer.memory == expected.memory);
}

void check_out(Random& random, Buffer& buffer, const View& view, HostTensor& host) {
  fill(random, buffer.memory);
  HostTensor expected = host;
  const Convert convert = to_host(buffer.shape->element(), host.dtype);
  each_index(view.size, [&](const Sizes& index) { convert(buffer.at(offset_of(view, index)), expected.at(index), 1); });
  copy_out(buffer.view(view), host.as_view());
  CHECK(host.memory == expected.memory);
}

void check_both_ways(Random& random, Buffer& buffer) {
  const View target = random_view(random, buffer.whole(), false);
  HostTensor source = random_host(random, random_device_dtype_for(random, buffer.shape->dtype()), target.size);
  check_in(buffer, target, source);
  const View view = random_view(random, buffer.whole(), true);
  HostTensor out = random_host(random, random_device_dtype_for(random, buffer.shape->dtype()), view.size);
  check_out(random, buffer, view, out);
}

Layout fp16_layout(Sizes device_size, Sizes stride_map) {
  return {std::move(device_size), std::move(stride_map), DataFormat::SEN169_FP16};
}

std::vector<Buffer> explicit_buffers() {
  const DType fp16 = DType::Float16;
  std::vector<Buffer> buffers;
  buffers.push_back(explicit_buffer({{40, 60}, {60, 1}}, fp16, fp16_layout({1, 512, 64}, {64, 60, 1})));
  buffers.push_back(explicit_buffer({{60}, {1}}, fp16, fp16_layout({1, 512, 64}, {64, 0, 1})));
  buffers.push_back(explicit_buffer({{40, 60}, {60, 1}}, fp16, fp16_layout({38, 64}, {64, 1})));
  buffers.push_back(explicit_buffer({{4800}, {1}}, fp16, fp16_layout({3, 2, 14, 64}, {120, 64, 360, 1})));
  buffers.push_back(explicit_buffer({{60, 40}, {1, 60}}, fp16, fp16_layout({38, 64}, {64, 1})));
  buffers.push_back(explicit_buffer({{512, 128}, {200, 1}}, fp16, fp16_layout({512, 2, 64}, {200, 64, 1})));
  buffers.push_back(explicit_buffer({{5, 70}, {70, 1}}, fp16, fp16_layout({3, 2, 7, 64}, {0, 64, 70, 1})));
  return buffers;
}

}  // namespace

TEST(random_views_of_tiled_buffers_match_the_oracle) {
  const Configuration before = configuration();
  for (uint32_t seed = 0; seed < 1200; ++seed) {
    Configuration limited = before;
    limited.isa = name(static_cast<Isa>(seed % kIsaCount));  // as far as the host has it
    configure(limited);
    Random random(seed);
    Buffer buffer = random_buffer(random, random_dtype(random), random_sizes(random, 6, 4000));
    check_both_ways(random, buffer);
    if (check::failures) return check::report(__FILE__, __LINE__, "seed " + std::to_string(seed));
  }
  configure(before);
}

TEST(random_views_of_explicit_layouts_match_the_oracle) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    for (Buffer& buffer : explicit_buffers()) check_both_ways(random, buffer);
    if (check::failures) return check::report(__FILE__, __LINE__, "seed " + std::to_string(seed));
  }
}

// What unfold and pools read: loops that share a stick, and windows that share elements.
TEST(windows_are_planned_without_decoding_and_match_the_oracle) {
  Random random(2);
  const std::vector<View> views = {
      {{6, 16, 8}, {160, 1, 16}, 0},          // unfold, transposed
      {{6, 16, 8}, {160, 1, 16}, 21},         // beginning within a stick
      {{2, 2, 3, 80}, {160, 1, 320, 2}, 0},   // a pool's windows, side by side
      {{3, 3, 2, 70}, {160, 1, 320, 2}, 0},   // sharing elements
      {{3, 3, 2, 150}, {160, 1, 320, 1}, 3},  // of a convolution
      {{6, 150, 4}, {160, 1, 0}, 5},          // repeated
  };
  for (const DType dtype : {DType::Float16, DType::Float32, DType::Int64, DType::Bool}) {
    for (const View& view : views) {
      Buffer buffer = tiled_buffer({{6, 160}, {160, 1}, 0}, dtype, {0, 1});
      HostTensor out = random_host(random, dtype, view.size);
      check_out(random, buffer, view, out);
      const auto axes = dma::merged_axes(view.size, out.view.stride, view.stride);
      for (const dma::Piece& piece : dma::plan(*buffer.shape, view.offset, axes)) CHECK(!piece.irregular);
    }
  }
}

TEST(a_padded_tile_index_stays_zero) {
  Random random(1);
  const View host{{40, 60}, {60, 1}, 0};
  const Sizes order{0, 1};
  const ShapePtr shape = intern(host.size, host.stride, DType::Float16, fp16_layout({2, 40, 64}, {64, 60, 1}));
  Buffer buffer = make_buffer(shape, place_by_rule(host, shape->layout(), order));
  check_both_ways(random, buffer);
}

TEST(large_copies_on_all_threads_match_the_oracle) {
  const std::pair<Sizes, DType> tensors[] = {
      {{700, 1000}, DType::Float16}, {{3, 5, 130, 200}, DType::Float32},  {{1100000}, DType::Bool},
      {{9000, 37}, DType::Int64},    {{1, 900, 1, 900}, DType::BFloat16}, {{600000}, DType::Float16}};
  uint32_t seed = 100;
  for (const auto& [size, dtype] : tensors) {
    Random random(seed++);
    Buffer buffer = random_buffer(random, dtype, size);
    HostTensor source = random_host(random, dtype, size), target = random_host(random, dtype, size);
    check_in(buffer, buffer.whole(), source);
    check_out(random, buffer, buffer.whole(), target);
  }
}

TEST(copies_around_the_cache_match_the_oracle) {
  const std::pair<Sizes, DType> tensors[] = {
      {{4300, 2048}, DType::Float16}, {{3, 2800, 1023}, DType::Float16}, {{3, 1, 1400, 1030}, DType::Float32}};
  Random random(11);
  for (const auto& [size, dtype] : tensors) {
    Sizes stride(size.size(), 1), order(size.size());
    for (size_t i = size.size() - 1; i > 0; --i) stride[i - 1] = stride[i] * size[i];
    std::iota(order.begin(), order.end(), 0);
    Buffer buffer = tiled_buffer({size, stride, 0}, dtype, order);
    HostTensor host{{size, stride, 0}, dtype, Bytes(static_cast<size_t>(product(size) * host_itemsize(dtype)))};
    CHECK(host.memory.size() >= (16u << 20));
    fill(random, host.memory);
    check_in(buffer, buffer.whole(), host);
    check_out(random, buffer, buffer.whole(), host);
  }
}

TEST(a_view_of_another_type_reads_and_writes_the_same_bits) {
  Random random(12);
  for (const auto& [stored, seen] : {std::pair{DType::Float32, DType::Int32}, {DType::Int32, DType::Float32}}) {
    Buffer buffer = tiled_buffer({{9, 70}, {70, 1}, 0}, stored, {0, 1});
    const View part{{5, 33}, {140, 2}, 3};
    HostTensor bits{{part.size, {33, 1}, 0}, seen, Bytes(5 * 33 * 4)}, back = bits;
    fill(random, bits.memory);
    DeviceView view = buffer.view(part);
    view.dtype = seen;
    copy_in(bits.as_view(), view);
    each_index(part.size, [&](const Sizes& index) {
      CHECK(std::memcmp(bits.at(index), buffer.at(offset_of(part, index)), 4) == 0);
    });
    copy_out(view, back.as_view());
    CHECK(back.memory == bits.memory);
    Buffer copy = tiled_buffer({part.size, {33, 1}, 0}, seen, {1, 0});
    copy_across(view, copy.view(copy.whole()));
    copy_out(copy.view(copy.whole()), back.as_view());
    CHECK(back.memory == bits.memory);
  }
}

TEST(card_to_card_copies_match_the_oracle) {
  for (uint32_t seed = 0; seed < 750; ++seed) {
    Random random(seed);
    const DType from = random_dtype(random), to = random.chance(70) ? from : random_dtype(random);
    Buffer target = random_buffer(random, to, random_sizes(random, 5, 3000));
    const View written = random_view(random, target.whole(), false);
    if (written.size.size() > kMaxRank) continue;
    Buffer source = random_buffer(random, from, written.size);
    fill(random, source.memory);
    Buffer expected = target;
    const Convert convert = between(source.shape->element(), target.shape->element());
    std::byte code[8];
    each_index(written.size, [&](const Sizes& index) {
      convert(source.at(offset_of(source.whole(), index)), code, 1);
      write_everywhere(expected, offset_of(written, index), code);
    });
    copy_across(source.view(source.whole()), target.view(written));
    if (source.shape != target.shape) CHECK(target.memory == expected.memory);
    if (check::failures) return check::report(__FILE__, __LINE__, "seed " + std::to_string(seed));
  }
}

TEST(large_card_to_card_copies_are_cut_into_blocks) {
  Random random(7);
  const View host{{700, 1000}, {1000, 1}, 0};
  Buffer source = tiled_buffer(host, DType::Float16, {0, 1}), target = tiled_buffer(host, DType::Float16, {1, 0});
  fill(random, source.memory);
  Buffer expected = target;
  each_index(host.size, [&](const Sizes& index) {
    write_everywhere(expected, offset_of(host, index), source.at(offset_of(host, index)));
  });
  copy_across(source.view(host), target.view(host));
  CHECK(target.memory == expected.memory);
}

TEST(the_first_value_that_does_not_fit_is_told_whichever_block_meets_it_first) {
  const View host{{700, 1000}, {1000, 1}, 0};
  const Layout wide = tiled_layout(host.size, host.stride, DataFormat::IEEE_INT64, Sizes{0, 1});
  Buffer source =
      make_buffer(intern(host.size, host.stride, DType::Int64, wide), place_by_rule(host, wide, Sizes{0, 1}));
  Buffer target = tiled_buffer(host, DType::Int64, {1, 0});
  std::fill(source.memory.begin(), source.memory.end(), std::byte{0});
  const int64_t beyond = 3000000000, more = 4000000000;
  std::memcpy(source.at(offset_of(host, Sizes{650, 7})), &more, 8);
  std::memcpy(source.at(offset_of(host, Sizes{90, 900})), &beyond, 8);
  CHECK_THROWS_SAYING(ValueOutOfRange, "element [90, 900] is 3000000000",
                      copy_across(source.view(host), target.view(host)));
}

TEST(codes_survive_a_copy_between_layouts_bit_for_bit) {
  const View host{{256, 256}, {256, 1}, 0};
  Buffer source = tiled_buffer(host, DType::Float16, {0, 1}), target = tiled_buffer(host, DType::BFloat16, {1, 0});
  uint16_t next = 0;
  each_index(host.size, [&](const Sizes& index) {
    std::memcpy(source.at(offset_of(host, index)), &next, 2);
    ++next;
  });
  copy_across(source.view(host), target.view(host));
  next = 0;
  each_index(host.size, [&](const Sizes& index) {
    uint16_t code;
    std::memcpy(&code, target.at(offset_of(host, index)), 2);
    CHECK_EQ(code, next);
    ++next;
  });
}

TEST(overlapping_views_of_one_buffer_copy_as_if_staged) {
  Random random(3);
  const View host{{100, 90}, {90, 1}, 0};
  Buffer buffer = tiled_buffer(host, DType::Float16, {0, 1});
  fill(random, buffer.memory);
  Buffer before = buffer, expected = buffer;
  const View from{{99, 80}, {90, 1}, 3}, to{{99, 80}, {90, 1}, 95};
  each_index(from.size, [&](const Sizes& index) {
    write_everywhere(expected, offset_of(to, index), before.at(offset_of(from, index)));
  });
  copy_across(buffer.view(from), buffer.view(to));
  CHECK(buffer.memory == expected.memory);
}

TEST(equal_whole_buffers_are_copied_and_a_buffer_onto_itself_is_left_alone) {
  Random random(4);
  const View host{{33, 70}, {70, 1}, 0};
  Buffer source = tiled_buffer(host, DType::Float16, {0, 1}), target = source;
  fill(random, source.memory);
  copy_across(source.view(host), target.view(host));
  each_index(host.size, [&](const Sizes& index) {
    CHECK(std::memcmp(source.at(offset_of(host, index)), target.at(offset_of(host, index)), 2) == 0);
  });
  const Bytes before = source.memory;
  copy_across(source.view(host), source.view(host));
  CHECK(source.memory == before);
}

TEST(images_are_what_the_host_would_store) {
  Random random(5);
  const View host{{5, 70}, {100, 1}, 0};
  Buffer buffer = tiled_buffer(host, DType::Float16, {0, 1});
  std::vector<uint16_t> image(static_cast<size_t>(span_of(host))), back(image.size(), 0xA5A5);
  for (size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<uint16_t>(0x3C00 + 2 * (i % 500));  // exact in SEN169
  write_image(*buffer.shape, buffer.memory.data(), image.data());
  read_image(*buffer.shape, buffer.memory.data(), back.data());
  for (size_t i = 0; i < image.size(); ++i) CHECK_EQ(back[i], i % 100 < 70 ? image[i] : 0xA5A5);
}

TEST(an_integer_out_of_range_names_its_first_index_and_value) {
  std::vector<int64_t> values(1000 * 300, 7);
  values[123 * 300 + 45] = 3000000000;
  values[500 * 300 + 1] = -3000000000;
  Buffer buffer = tiled_buffer({{1000, 300}, {300, 1}, 0}, DType::Int64, {0, 1});
  const HostView source{values.data(), DType::Int64, {1000, 300}, {300, 1}};
  CHECK_THROWS_SAYING(ValueOutOfRange, "element [123, 45] is 3000000000",
                      (copy_in(source, buffer.view(buffer.whole())), 0));
  const HostView turned{values.data(), DType::Int64, {300, 1000}, {1, 300}};
  CHECK_THROWS_SAYING(ValueOutOfRange, "element [1, 500] is -3000000000",
                      (copy_in(turned, buffer.view({{300, 1000}, {1, 300}, 0})), 0));
}

TEST(mistakes_are_named) {
  Buffer buffer = tiled_buffer({{4, 6}, {6, 1}, 0}, DType::Float16, {0, 1});
  std::vector<uint16_t> host(100);
  const auto copy = [&](Sizes size, Sizes stride, int64_t offset) {
    copy_out(buffer.view({size, stride, offset}),
             {host.data(), DType::Float16, size, size.size() == 2 ? Sizes{size[1], 1} : Sizes{1}});
    return 0;
  };
  CHECK_THROWS_SAYING(InvalidArgument, "leaves its buffer", copy({4, 6}, {6, 1}, 1));
  CHECK_THROWS_SAYING(InvalidArgument, "leaves its buffer", copy({25}, {1}, 0));
  CHECK_THROWS(InvalidArgument,
               (copy_out(buffer.view(buffer.whole()), {host.data(), DType::Float16, {6, 4}, {4, 1}}), 0));
  Buffer gaps = tiled_buffer({{4, 6}, {10, 1}, 0}, DType::Float16, {0, 1});
  CHECK_THROWS(InvalidArgument, (copy_out(gaps.view({{7}, {1}, 0}), {host.data(), DType::Float16, {7}, {1}}), 0));
  CHECK_THROWS(InvalidArgument,
               (copy_out(gaps.view({{3, 5}, {3, 2}, 0}), {host.data(), DType::Float16, {3, 5}, {5, 1}}), 0));
}

TEST(empty_and_scalar_tensors_copy) {
  Buffer scalar = tiled_buffer({{}, {}, 0}, DType::Float32, {});
  const float pi = 3.14159f;
  float back = 0;
  copy_in({const_cast<float*>(&pi), DType::Float32, {}, {}}, scalar.view({{}, {}, 0}));
  copy_out(scalar.view({{}, {}, 0}), {&back, DType::Float32, {}, {}});
  CHECK_EQ(back, pi);
  const ShapePtr empty = intern_default(Sizes{3, 0}, Sizes{1, 1}, DType::Float16);
  copy_in({nullptr, DType::Float16, {3, 0}, {1, 1}}, {empty, nullptr, DType::Float16, 0, {3, 0}, {1, 1}});
  copy_out({empty, nullptr, DType::Float16, 0, {3, 0}, {1, 1}}, {nullptr, DType::Float16, {3, 0}, {1, 1}});
}
