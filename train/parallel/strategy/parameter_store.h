// ParameterStore: where parameters are while no stage uses them.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::detail {

/// Every rank makes the same calls in the same order. Thread-safety: the training thread's; hooks of backward may run
/// on autograd's.
class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  /// Around the forward of a stage, stages in their order: the parameters of `stage` are whole in between, and again
  /// when backward comes back to it through `output`.
  virtual void enter(size_t stage) = 0;
  virtual void leave(size_t stage, const torch::Tensor& output) = 0;

  /// Outside of forward and backward: the parameters of `stage` are whole in between, to be read.
  virtual void gather(size_t stage) = 0;
  virtual void put_back(size_t stage) = 0;
  /// Outside of forward and backward, and not collective: sets a parameter, which counts as ModelPart::parameters()
  /// does.
  virtual void load(size_t parameter, const torch::Tensor& value) = 0;

  /// What it keeps beside the parameters, and the most bytes that both took at a time so far.
  virtual std::vector<torch::Tensor> tensors() const = 0;
  virtual int64_t peak_bytes() const = 0;
};

}  // namespace penstock::detail
