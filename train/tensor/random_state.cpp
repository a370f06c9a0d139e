// RandomState: the state of LibTorch's default generator.
#include "train/tensor/random_state.h"

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

}  // namespace penstock::detail
