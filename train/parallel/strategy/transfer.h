// transfer(): one tensor of another rank at rank 0.
#pragma once

#include <torch/types.h>

#include <string>

#include "train/comm/comm.h"

namespace penstock::detail {

/// Collective over rank `from` and rank 0: at rank 0 a tensor of `from`, elsewhere an undefined one. `own` is that
/// tensor at `from`; at rank 0 it tells sizes and dtype, and may have no memory. `device`: of both ranks; `what` names
/// the tensor in errors.
///
/// Rank 0 calls for the tensor before `from` sends it, so that never more than one is on its way, also where sends
/// return at once.
torch::Tensor transfer(Comm& comm, int from, const torch::Tensor& own, const torch::Device& device,
                       const std::string& what);

}  // namespace penstock::detail
