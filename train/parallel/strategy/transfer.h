// transfer(): one tensor of another rank at rank 0.
#pragma once

#include <torch/types.h>

#include <string>

#include "train/comm/comm.h"

namespace penstock::detail {

/// Brings a tensor from rank `from` to rank 0, which gets it as the result; elsewhere the result is undefined.
/// Collective over these two ranks. `own` is the tensor at `from`; at rank 0 it has the same sizes and dtype, and needs
/// no memory. `device`: that of both ranks. `what` names the tensor in errors.
///
/// Rank 0 asks for the tensor before `from` sends it. So no more than one is on its way, even where sends return at
/// once.
torch::Tensor transfer(Comm& comm, int from, const torch::Tensor& own, const torch::Device& device,
                       const std::string& what);

}  // namespace penstock::detail
