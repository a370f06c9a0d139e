// RankSums: the partial sums of ranks, added in the order of a tree (--exact).
#pragma once

#include <torch/types.h>

#include <deque>
#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/sync/pending_collectives.h"

namespace penstock::detail {

/// Rank r's partial sum is leaf r. Where Comm::adds_pairwise() these are added by one all-reduce or reduce-scatter.
/// Otherwise ranks gather all partial sums and each adds these up itself: an all-reduce adds in an order of its own.
/// That takes W - 1 times the bytes of the gradients per rank, where an all-reduce takes 2 (W - 1) / W.
///
/// Memory: where they are gathered, W times that of each `flat` between start() and land().
/// Thread-safety: that of its caller.
class RankSums {
 public:
  /// Both outlive this.
  RankSums(Comm& comm, PendingCollectives& works) : comm_(comm), works_(works) {}

  /// Starts the collective for `flat`, the partial sums of this rank, as one of the works. The sums over all ranks
  /// arrive in `sum`: either `flat` itself, or a tensor for this rank's slice of it, and then `flat` is destroyed.
  void start(torch::Tensor flat, torch::Tensor sum);
  /// Finishes every sum whose work was waited for: it is in its `sum` afterwards.
  void land();
  /// The gathered partial sums that have not landed yet.
  std::vector<torch::Tensor> gathered() const;

 private:
  struct Gathered {
    size_t work_count;  // works of the step up to and with this one
    torch::Tensor all, sum;
  };

  Comm& comm_;
  PendingCollectives& works_;
  std::deque<Gathered> gathered_;
};

}  // namespace penstock::detail
