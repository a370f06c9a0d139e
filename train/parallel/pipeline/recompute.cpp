// RecomputedForward: swaps the memory under the buffers.
#include "train/parallel/pipeline/recompute.h"

namespace penstock::detail {

RecomputedForward::RecomputedForward(const RandomState& before, const NamedTensors& buffers,
                                     const torch::Device& device)
    : now_(device), buffers_(values(buffers)) {
  at::NoGradGuard no_grad;
  now_.keep();
  before.restore();
  // Another memory and not another value: a copy back would count as a change, and autograd refuses the backward of a
  // forward that has saved the tensor before.
  for (auto& buffer : buffers_) {
    kept_.push_back(buffer.detach());
    buffer.set_data(buffer.clone());
  }
}

RecomputedForward::~RecomputedForward() {
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].set_data(kept_[i]);
  now_.restore();
}

}  // namespace penstock::detail
