// ParameterStore: where parameters are while no block uses them.
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
  /// Called before and after the forward of each block, in the order of the blocks. The parameters of `block` are whole
  /// between the two calls, and again when backward comes back through `output`.
  virtual void enter(size_t block) = 0;
  virtual void leave(size_t block, const torch::Tensor& output) = 0;

  /// Outside of forward and backward: the parameters of `block` are whole between the two calls, and may be read.
  virtual void gather(size_t block) = 0;
  virtual void put_back(size_t block) = 0;
  /// Sets the parameter with this index in ModelPart::parameters(). Outside of forward and backward; not collective.
  virtual void load(size_t parameter, const torch::Tensor& value) = 0;

  /// The tensors that it keeps besides the parameters; and the most bytes that both together took at any moment so far.
  virtual std::vector<torch::Tensor> tensors() const = 0;
  virtual int64_t peak_bytes() const = 0;
};

}  // namespace penstock::detail
