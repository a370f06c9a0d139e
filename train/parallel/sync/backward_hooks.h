// Hooks of backward: when the gradient of a parameter is there.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace penstock::detail {

/// While this object lives, every backward calls `after(i)` when it has added to the gradient of parameter i. The calls
/// come one at a time, on autograd's thread of the device.
class AccumulationHooks {
 public:
  AccumulationHooks(const std::vector<torch::Tensor>& parameters, std::function<void(size_t parameter)> after);
  ~AccumulationHooks();
  AccumulationHooks(const AccumulationHooks&) = delete;
  AccumulationHooks& operator=(const AccumulationHooks&) = delete;

 private:
  std::function<void(size_t)> after_;
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks_;
};

}  // namespace penstock::detail
