// Layouts: the worked examples of the reference, and the algebra from host offset to device element.
#include <map>
#include <thread>

#include "check.h"
#include "formats/layout.h"
#include "random_tensors.h"

using namespace openspyre;
using namespace openspyre::testing;

namespace {

Sizes dense(const Sizes& size) {
  Sizes stride(size.size());
  int64_t next = 1;
  for (size_t i = size.size(); i-- > 0;) stride[i] = next, next *= std::max<int64_t>(size[i], 1);
  return stride;
}

Sizes identity(size_t rank) {
  Sizes order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

struct Example {
  Sizes host, device_size, stride_map;
  int64_t bytes;
  Sizes order = {99};
  DataFormat format = DataFormat::SEN169_FP16;
  Sizes stride = {};
};

const Example kExamples[] = {
    {{}, {1, 64}, {-1, -1}, 128},
    {{1}, {1, 64}, {-1, -1}, 128},
    {{64}, {1, 64}, {64, 1}, 128},
    {{100}, {2, 64}, {64, 1}, 256},
    {{33, 70}, {2, 33, 64}, {64, 70, 1}, 8448},
    {{7, 1}, {1, 7, 64}, {-1, 1, -1}, 896},
    {{1, 7}, {1, 1, 64}, {64, -1, 1}, 128},
    {{3, 5, 130}, {5, 3, 3, 64}, {130, 64, 650, 1}, 5760},
    {{3, 5, 130}, {5, 5, 3, 32}, {130, 32, 650, 1}, 9600, {99}, DataFormat::IEEE_FP32},
    {{2, 3, 4, 65}, {3, 4, 2, 2, 64}, {260, 65, 64, 780, 1}, 6144},
    {{2, 3, 4, 5, 6}, {3, 4, 5, 1, 2, 64}, {120, 30, 6, 64, 360, 1}, 15360},
    {{2, 2, 2, 2, 2, 100}, {2, 2, 2, 2, 2, 2, 64}, {800, 400, 200, 100, 64, 1600, 1}, 8192},
    {{96, 200}, {2, 200, 64}, {12800, 1, 200}, 51200, {1, 0}},
    {{6, 128, 96}, {6, 2, 128, 64}, {12288, 64, 96, 1}, 196608, {1, 0, 2}},
    {{6, 128, 96}, {96, 2, 6, 64}, {1, 6144, 12288, 96}, 147456, {0, 2, 1}},
    {{96, 200}, {200, 1, 96, 64}, {1, -1, 200, -1}, 2457600, {0, 1, -1}},
    {{40}, {1, 40, 64}, {-1, 1, -1}, 5120, {0, -1}},
    {{10, 300}, {3, 10, 128}, {128, 300, 1}, 3840, {99}, DataFormat::SENINT8},
    {{10, 300}, {3, 10, 128}, {128, 300, 1}, 3840, {99}, DataFormat::SEN143_FP8},
    {{10, 50}, {1, 10, 64}, {64, 50, 1}, 1280},
    {{8, 40}, {1, 8, 64}, {512, 1, 8}, 1024, {0, 1}, DataFormat::SEN169_FP16, {1, 8}},
    {{512, 256}, {4, 512, 64}, {64, 256, 1}, 262144},
    {{512, 256}, {8, 256, 64}, {16384, 1, 256}, 262144, {1, 0}},
    {{512, 8, 256}, {8, 8, 256, 64}, {256, 131072, 1, 2048}, 2097152, {2, 1, 0}},
    {{512, 256}, {256, 1, 512, 64}, {1, -1, 256, -1}, 16777216, {0, 1, -1}},
};

Layout fp16_layout(Sizes device_size, Sizes stride_map) {
  return {std::move(device_size), std::move(stride_map), DataFormat::SEN169_FP16};
}

ShapePtr intern_fp16(const Sizes& size, const Layout& layout) {
  return intern(size, dense(size), DType::Float16, layout);
}

// Every element has one place of its own, and its device coordinates lead back to its host offset.
void check_places(const BufferShape& shape) {
  std::map<int64_t, int64_t> host_of_place;
  const Layout& layout = shape.layout();
  each_index(shape.host_size(), [&](const Sizes& index) {
    const int64_t host = dot(index, shape.host_stride());
    const int64_t place = shape.device_offset(host);
    const auto [entry, fresh] = host_of_place.emplace(place, host);
    CHECK(fresh || entry->second == host);
    int64_t rest = place, back = 0;
    for (size_t j = layout.device_size.size(); j-- > 0;) {
      back += rest % layout.device_size[j] * std::max<int64_t>(layout.stride_map[j], 0);
      rest /= layout.device_size[j];
    }
    CHECK_EQ(rest, 0);
    CHECK_EQ(back, host);
  });
}

}  // namespace

TEST(worked_examples_of_the_reference) {
  for (const Example& example : kExamples) {
    const Sizes stride = example.stride.empty() ? dense(example.host) : example.stride;
    const Sizes order = example.order == Sizes{99} ? identity(example.host.size()) : example.order;
    const Layout layout = tiled_layout(example.host, stride, example.format, order);
    CHECK(layout.device_size == example.device_size);
    CHECK(layout.stride_map == example.stride_map);
    CHECK_EQ(layout.device_bytes(), example.bytes);
  }
}

TEST(a_layout_prints_as_python_does) {
  const Layout layout = tiled_layout(Sizes{33, 70}, Sizes{70, 1}, DataFormat::SEN169_FP16, Sizes{0, 1});
  CHECK_EQ(layout.str(),
           "SpyreTensorLayout(device_size=[2, 33, 64], stride_map =[64, 70, 1], device_dtype=DataFormats.SEN169_FP16)");
  Layout other = layout;
  other.arrangement = ElementArrangement::EXX2;
  CHECK_EQ(other.str(),
           "SpyreTensorLayout(device_size=[2, 33, 64], stride_map =[64, 70, 1], device_dtype=DataFormats.SEN169_FP16, "
           "element_arrangement=ElementArrangement.EXX2)");
}

TEST(wrong_orders_are_refused) {
  const auto tile = [](Sizes size, Sizes order) {
    return tiled_layout(size, dense(size), DataFormat::SEN169_FP16, order);
  };
  CHECK_THROWS_SAYING(InvalidLayout, "Incompatible host_size and dim_order", tile({3, 4}, {0}));
  CHECK_THROWS_SAYING(InvalidLayout, "Incompatible host_size and dim_order", tile({3, 4}, {0, 0}));
  CHECK_THROWS_SAYING(InvalidLayout, "Incompatible host_size and dim_order", tile({3, 4}, {0, 1, 2}));
  CHECK_THROWS_SAYING(InvalidLayout, "Unsupported tensor rank: 7", tile(Sizes(7, 2), identity(7)));
  CHECK_THROWS_SAYING(InvalidLayout, "Unsupported tensor rank: 7", tile(Sizes(6, 2), {0, 1, 2, 3, 4, 5, -1}));
  CHECK_THROWS(UnsupportedFormat, tiled_layout(Sizes{3}, Sizes{1}, DataFormat::INVALID, Sizes{0}));
}

TEST(every_element_of_every_tiling_has_its_place) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const View host{random_sizes(random, 6, 3000), {}, 0};
    const Sizes stride = random_strides(random, host.size, 20);
    Sizes order = identity(host.size.size());
    std::shuffle(order.begin(), order.end(), random.engine);
    if (order.size() < 6 && random.chance(15)) order.push_back(-1);
    const Layout layout = tiled_layout(host.size, stride, DataFormat::SEN169_FP16, order);
    const ShapePtr shape = intern(host.size, stride, DType::Float16, layout);
    check_places(*shape);
    const std::vector<int64_t> places = place_by_rule({host.size, stride, 0}, layout, order);
    for (size_t offset = 0; offset < places.size(); ++offset) {
      if (places[offset] >= 0) {
        CHECK_EQ(shape->device_offset(static_cast<int64_t>(offset)), places[offset]);
      } else {
        CHECK_THROWS(InvalidArgument, shape->device_offset(static_cast<int64_t>(offset)));
      }
    }
    if (check::failures) return check::report(__FILE__, __LINE__, "seed " + std::to_string(seed));
  }
}

TEST(explicit_layouts_of_the_reference_are_accepted) {
  check_places(*intern_fp16({40, 60}, fp16_layout({1, 512, 64}, {64, 60, 1})));
  check_places(*intern_fp16({40, 60}, fp16_layout({38, 64}, {64, 1})));
  check_places(*intern_fp16({4800}, fp16_layout({3, 2, 14, 64}, {120, 64, 360, 1})));
  check_places(*intern_fp16({40, 60}, fp16_layout({2, 40, 64}, {64, 60, 1})));  // a padded tile index
  check_places(*intern_fp16({40, 60}, fp16_layout({40, 1, 64}, {60, -1, 1})));
  const ShapePtr expanded = intern_fp16({60}, fp16_layout({1, 512, 64}, {64, 0, 1}));
  CHECK_EQ(expanded->replicas().size(), 1u);
  CHECK_EQ(expanded->replicas()[0].count, 512);
  CHECK_EQ(expanded->replicas()[0].device_stride, 64);
  check_places(*expanded);
}

TEST(layouts_that_do_not_fit_are_refused) {
  const auto refused = [](const Sizes& size, const Layout& layout) { return intern_fp16(size, layout); };
  CHECK_THROWS_SAYING(InvalidLayout, "[33, 70]", refused({33, 70}, fp16_layout({2, 32, 64}, {64, 70, 1})));
  CHECK_THROWS_SAYING(InvalidLayout, "device_size=[1, 33, 64]",
                      refused({33, 70}, fp16_layout({1, 33, 64}, {64, 70, 1})));
  CHECK_THROWS(InvalidLayout, refused({33, 70}, fp16_layout({2, 33, 64}, {64, 69, 1})));
  CHECK_THROWS(InvalidLayout, refused({40, 60}, fp16_layout({37, 64}, {64, 1})));
  CHECK_THROWS(InvalidLayout, refused({128}, fp16_layout({2, 64}, {32, 1})));
  CHECK_THROWS_SAYING(InvalidLayout, "must be 64", refused({32}, fp16_layout({1, 32}, {32, 1})));
  CHECK_THROWS(InvalidLayout, refused({64}, fp16_layout({64}, {64, 1})));
  CHECK_THROWS(InvalidLayout, refused({64}, fp16_layout({0, 64}, {64, 1})));
  CHECK_THROWS(InvalidLayout, refused({64}, fp16_layout({}, {})));
  CHECK_THROWS(UnsupportedFormat, refused({64}, {{1, 32}, {32, 1}, DataFormat::IEEE_INT32}));
  CHECK_THROWS(UnsupportedFormat, refused({64}, {{1, 256}, {256, 1}, DataFormat::SENINT4}));
}

TEST(default_shapes_fold_what_cannot_be_tiled) {
  const auto folded = [](Sizes size, Sizes stride) { return intern_default(size, stride, DType::Float16); };
  CHECK(folded({8, 40}, {1, 8})->layout().stride_map == (Sizes{512, 1, 8}));
  CHECK(folded({8, 40}, {100, 1})->host_size() == (Sizes{8, 40}));
  CHECK(folded({5, 3}, {1, 1})->host_size() == (Sizes{7}));  // overlapping windows
  CHECK(folded({5, 3}, {0, 1})->host_size() == (Sizes{3}));  // expanded
  CHECK(folded({2, 3, 2, 2, 2, 2, 5}, dense({2, 3, 2, 2, 2, 2, 5}))->host_size() == (Sizes{6, 2, 2, 2, 2, 5}));
  CHECK(folded(Sizes(9, 2), {256, 1, 2, 4, 8, 16, 32, 64, 128})->host_size() == (Sizes{512}));
  CHECK(folded({}, {})->layout().device_size == (Sizes{1, 64}));
  CHECK_EQ(folded({3, 0}, {1, 1})->device_bytes(), 0);
  CHECK_EQ(folded({3, 0}, {1, 1})->host_elements(), 0);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    Sizes size = random_sizes(random, 9, 3000);
    const Sizes stride = random_strides(random, size, 10);
    const ShapePtr shape = intern_default(size, stride, DType::Float32);
    each_index(
        size, [&](const Sizes& index) { CHECK(shape->device_offset(dot(index, stride)) * 4 < shape->device_bytes()); });
    check_places(*shape);
  }
}

TEST(equal_shapes_are_one_object_and_ids_are_never_reused) {
  const ShapePtr a = intern_default(Sizes{33, 71}, Sizes{71, 1}, DType::Float16);
  const Layout layout = tiled_layout(Sizes{33, 71}, Sizes{71, 1}, DataFormat::SEN169_FP16, Sizes{0, 1});
  CHECK(a == intern(Sizes{33, 71}, Sizes{71, 1}, DType::Float16, layout));
  CHECK(a != intern_default(Sizes{33, 71}, Sizes{71, 1}, DType::BFloat16));
  const uint64_t forgotten = intern_default(Sizes{1234567}, Sizes{1}, DType::Float16)->id();
  clear_unused_shapes();
  CHECK(a == intern_default(Sizes{33, 71}, Sizes{71, 1}, DType::Float16));
  CHECK(intern_default(Sizes{1234567}, Sizes{1}, DType::Float16)->id() > forgotten);
}

TEST(the_table_of_shapes_stays_bounded) {
  for (int64_t n = 1; n < 30000; ++n) intern_default(Sizes{n}, Sizes{1}, DType::Int8);
  CHECK(interned_shapes() < 20000);
}

TEST(threads_that_intern_the_same_shapes_agree) {
  constexpr int kThreads = 4, kShapes = 200;
  std::vector<std::vector<ShapePtr>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&seen, t] {
      for (int64_t n = 0; n < kShapes; ++n)
        seen[static_cast<size_t>(t)].push_back(intern_default(Sizes{n, 7, 91}, Sizes{637, 91, 1}, DType::Float32));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < kThreads; ++t) CHECK(seen[static_cast<size_t>(t)] == seen[0]);
}
