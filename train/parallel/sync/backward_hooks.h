// Hooks of backward: when the gradient of a parameter is there.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
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
  // The pointer is std::shared_ptr up to LibTorch 2.11 at least, and c10::intrusive_ptr in 2.15.
  std::vector<std::pair<decltype(torch::autograd::Edge::function), uintptr_t>> hooks_;
};

}  // namespace penstock::detail
