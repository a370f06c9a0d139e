// sum_over_copies(): numbers of all ranks, added in an order that the number of ranks does not change.
#pragma once

#include <torch/types.h>

#include "train/comm/comm.h"

namespace penstock {

/// Collective: the sum of the ranks' `own`, on the CPU at every rank. Neighbouring ranks are the parts of one of
/// `copies` of a model; these are added first, and then the copies pairwise. So where one rank of each copy has numbers
/// and the others zeros, and copies are powers of two, it is the tree of --exact (make_tree_sync()).
///
/// Requires that `copies` divides the number of ranks, and the same sizes at every rank. Memory: `own` of all ranks.
torch::Tensor sum_over_copies(Comm& comm, int copies, const torch::Tensor& own);

}  // namespace penstock
