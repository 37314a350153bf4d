// Calls whose sizes grow: from the third length on they run with stand-ins of a size they share, so that a cache that
// grows by a step at a time needs no program per length.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>

#include "operators/plans.h"

namespace torch_spyre {

// Per operator: which lengths its calls had, by all else that they are made of.
class Growth {
 public:
  // Whether calls like this one came with enough other lengths already.
  bool grows(const Key& like, int64_t length);
  void clear();

 private:
  std::mutex mutex_;
  std::unordered_map<Key, std::set<int64_t>, KeyHash> lengths_;
};

// The arguments of a call that computes the same on stand-ins, and the rows of its first result that are the call's.
struct StandIns {
  torch::jit::Stack arguments;
  std::optional<int64_t> rows;
};

// Of an attention whose keys (and queries, if they are as many) are filled up to whole sticks of scores, and masked.
std::optional<StandIns> padded_attention(Growth& growth, const torch::jit::Stack& stack, size_t arguments);

// Of a call that reads single elements of larger buffers: copies of them.
std::optional<StandIns> single_elements(const torch::jit::Stack& stack, size_t arguments);

at::Tensor first_rows(const at::Tensor& result, int64_t rows);
void forget_paddings();

}  // namespace torch_spyre
