#include "operators/growing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "device/record.h"
#include "device/runtime.h"

namespace torch_spyre {
namespace {

constexpr size_t kLengthsAlone = 2;    // that have programs of their own before calls are known to grow
constexpr size_t kMostClasses = 1024;  // remembered per operator
constexpr int64_t kFilledUpTo = 64;  // lanes of a stick: filled up so far, a row of scores is summed in the same order

int64_t filled_up(int64_t length) { return (length + kFilledUpTo - 1) / kFilledUpTo * kFilledUpTo; }

// Its last dim is written out, of which one number may stand for all keys: those behind have another.
at::Tensor padded_mask(const at::Tensor& mask, int64_t queries, int64_t length, int64_t keys) {
  std::vector<int64_t> sizes = mask.sizes().vec();
  sizes.back() = keys;
  if (sizes[sizes.size() - 2] != 1) sizes[sizes.size() - 2] = queries;
  at::Tensor padded = at::full(sizes, -std::numeric_limits<double>::infinity(), mask.options());
  padded.narrow(-1, 0, length).narrow(-2, 0, mask.size(-2)).copy_(mask);
  return padded;
}

// Small tensors that all layers of a model ask for at a step: of each kind the last is kept.
class LastMade {
 public:
  template <typename Make>
  at::Tensor get(const Key& wanted, const Make& make) {
    std::lock_guard lock(mutex_);
    if (!tensor_.defined() || key_ != wanted) tensor_ = make(), key_ = wanted;
    return tensor_;
  }
  void forget() {
    std::lock_guard lock(mutex_);
    tensor_.reset();
  }

 private:
  std::mutex mutex_;
  Key key_;
  at::Tensor tensor_;
};
struct Kept {
  LastMade mask, zeros;
};
Kept& kept() {
  static auto* instance = new Kept;  // the card may be gone when statics are
  return *instance;
}

// What is written on a stream is there for that stream.
Key key_for(at::IntArrayRef numbers, const at::TensorOptions& options) {
  const c10::DeviceIndex device = options.device().index();
  Key key{static_cast<int64_t>(c10::typeMetaToScalarType(options.dtype())), device,
          static_cast<int64_t>(current_stream(device).id())};
  key.append(numbers.begin(), numbers.end());
  return key;
}

// 0 for the keys there are, -inf behind them.
at::Tensor length_mask(int64_t length, int64_t keys, const at::TensorOptions& options) {
  return kept().mask.get(key_for({length, keys}, options), [&] {
    at::Tensor host = at::zeros({1, 1, 1, keys}, options.device(c10::kCPU));
    host.narrow(-1, length, keys - length).fill_(-std::numeric_limits<double>::infinity());
    return host.to(options.device());
  });
}

// A tensor with another number of rows whose dims lie in the same order.
at::Tensor with_rows(const at::Tensor& like, int64_t rows) {
  std::vector<int64_t> sizes = like.sizes().vec(), strides(like.dim()), order(like.dim());
  sizes[sizes.size() - 2] = rows;
  for (int64_t dim = 0; dim < like.dim(); ++dim) order[dim] = like.dim() - 1 - dim;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return like.stride(a) < like.stride(b); });
  int64_t step = 1;
  for (const int64_t dim : order) {
    strides[dim] = step;
    step *= sizes[dim];
  }
  return at::empty_strided(sizes, strides, like.options());
}

// Rows behind a tensor's own are 0. They are copied: copies take sizes as data, fills would be compiled for each.
at::Tensor padded_rows(const at::Tensor& tensor, int64_t rows) {
  const int64_t length = tensor.size(-2);
  if (length == rows && tensor.is_non_overlapping_and_dense()) return tensor;
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[sizes.size() - 2] = kFilledUpTo;
  const at::Tensor zeros =
      kept().zeros.get(key_for(sizes, tensor.options()), [&] { return at::zeros(sizes, tensor.options()); });
  at::Tensor padded = with_rows(tensor, rows);
  padded.narrow(-2, 0, length).copy_(tensor);
  if (length < rows) padded.narrow(-2, length, rows - length).copy_(zeros.narrow(-2, 0, rows - length));
  return padded;
}

// Everything of the call but its lengths.
Key likeness(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool masked, bool causal,
             bool square) {
  Key like{static_cast<int64_t>(query.scalar_type()), query.device().index(), masked, causal, square, query.dim()};
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    for (int64_t dim = 0; dim < tensor->dim(); ++dim) {
      const bool grows = dim == tensor->dim() - 2 && (tensor != &query || square);
      like.push_back(grows ? -1 : tensor->size(dim));
    }
  }
  return like;
}

}  // namespace

bool Growth::grows(const Key& like, int64_t length) {
  std::lock_guard lock(mutex_);
  if (lengths_.size() >= kMostClasses && !lengths_.count(like)) lengths_.clear();
  std::set<int64_t>& seen = lengths_[like];
  if (seen.size() >= kLengthsAlone) return true;
  seen.insert(length);
  return false;
}

void Growth::clear() {
  std::lock_guard lock(mutex_);
  lengths_.clear();
}

std::optional<StandIns> padded_attention(Growth& growth, const torch::jit::Stack& stack, size_t arguments) {
  const auto given = [&](size_t i) -> const c10::IValue& { return stack[stack.size() - arguments + i]; };
  const at::Tensor query = given(0).toTensor(), key = given(1).toTensor(), value = given(2).toTensor();
  const bool masked = given(3).isTensor() && given(3).toTensor().defined(), causal = given(5).toBool();
  const int64_t length = key.size(-2);
  const bool square = length > 1 && query.size(-2) == length;  // a prompt: there are as many queries as keys
  const bool plain =
      given(4).toDouble() == 0 && !(causal && query.size(-2) > length) && !(masked && given(3).toTensor().dim() < 2);
  if (!plain || !growth.grows(likeness(query, key, value, masked, causal, square), length)) return std::nullopt;
  const int64_t keys = filled_up(length), queries = square ? keys : query.size(-2);
  StandIns made{{stack.end() - static_cast<int64_t>(arguments), stack.end()}, std::nullopt};
  if (square) {
    made.arguments[0] = padded_rows(query, queries);
    made.rows = length;
  }
  made.arguments[1] = padded_rows(key, keys);
  made.arguments[2] = padded_rows(value, keys);
  if (masked) made.arguments[3] = padded_mask(given(3).toTensor(), queries, length, keys);
  if (!masked && !causal) {
    const at::Tensor mask = length_mask(length, keys, query.options());
    made.arguments[3] = query.dim() == 4 ? mask : mask.squeeze(0);
  }
  return made;
}

std::optional<StandIns> single_elements(const torch::jit::Stack& stack, size_t arguments) {
  std::optional<StandIns> made;
  const size_t first = stack.size() - arguments;
  for (size_t i = 0; i < arguments; ++i) {
    if (!stack[first + i].isTensor()) continue;
    const at::Tensor tensor = stack[first + i].toTensor();
    if (!tensor.defined() || tensor.device().type() != kSpyre || tensor.numel() != 1) continue;
    if (tensor.storage().nbytes() <= tensor.itemsize()) continue;
    if (!made) made.emplace(StandIns{{stack.begin() + static_cast<int64_t>(first), stack.end()}, std::nullopt});
    made->arguments[i] = tensor.clone(at::MemoryFormat::Contiguous);
  }
  return made;
}

at::Tensor first_rows(const at::Tensor& result, int64_t rows) {
  at::Tensor own = with_rows(result, rows);
  own.copy_(result.narrow(-2, 0, rows));
  return own;
}

void forget_paddings() {
  kept().mask.forget();
  kept().zeros.forget();
}

}  // namespace torch_spyre
