// NamedTensors: tensors with their names, in an order.
#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

namespace penstock {

/// Where a file or a state is planned, they say sizes and dtypes alone and need no memory.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

inline std::vector<torch::Tensor> values(const NamedTensors& tensors) {
  std::vector<torch::Tensor> list;
  for (const auto& [name, tensor] : tensors) list.push_back(tensor);
  return list;
}

}  // namespace penstock
