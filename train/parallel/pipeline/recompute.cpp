// RecomputedForward: swaps the memory under the buffers.
#include "train/parallel/pipeline/recompute.h"

#include <ATen/Context.h>

#include <mutex>

namespace penstock::detail {

void RandomState::keep() {
  auto generator = at::globalContext().defaultGenerator(device_);
  const std::lock_guard lock(generator.mutex());
  state_ = generator.get_state();
}

void RandomState::restore() const {
  auto generator = at::globalContext().defaultGenerator(device_);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state_);
}

bool RandomState::is_now() const {
  auto generator = at::globalContext().defaultGenerator(device_);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state().equal(state_);
}

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
