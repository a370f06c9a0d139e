// BorrowedBlock: one block of a model whose tensors have memory for a while, so that it can run before a run begins.
#pragma once

#include <torch/types.h>

#include <utility>
#include <vector>

#include "train/tensor/random_state.h"

namespace penstock {

class Model;

namespace detail {

/// A block's tensors on a device as long as this lives, buffers as copies; then the model has those that it had before.
/// Tensors without memory get some, with small random weights and statistics of 1.
class BorrowedBlock {
 public:
  BorrowedBlock(Model& model, size_t block, const torch::Device& device);
  ~BorrowedBlock();
  BorrowedBlock(const BorrowedBlock&) = delete;
  BorrowedBlock& operator=(const BorrowedBlock&) = delete;

  const std::vector<torch::Tensor>& trained() const { return trained_; }

 private:
  void replace(torch::Tensor tensor, const torch::Tensor& data);

  std::vector<std::pair<torch::Tensor, torch::Tensor>> originals_;
  std::vector<torch::Tensor> trained_;
};

/// The state of a device's random generator, as it is now and again at the end.
class KeptRandomState {
 public:
  explicit KeptRandomState(const torch::Device& device) : state_(device) { state_.keep(); }
  ~KeptRandomState() { state_.restore(); }
  KeptRandomState(const KeptRandomState&) = delete;
  KeptRandomState& operator=(const KeptRandomState&) = delete;

 private:
  RandomState state_;
};

}  // namespace detail
}  // namespace penstock
