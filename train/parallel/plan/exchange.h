// Exchange: what ranks tell each other during passes beside each other, as in a run.
#pragma once

#include <torch/types.h>

#include <memory>

#include "train/comm/comm.h"

namespace penstock::detail {

/// Its threads then take the cores from the passes, and leave caches cold, as they do in a run.
class Exchange {
 public:
  /// Collective over two ranks or more, as sum() is. Sums are of `gradient_bytes`.
  Exchange(Comm& comm, double gradient_bytes);

  /// To the neighbour and from it, while the pass goes on; waits for the one before. Ranks call it equally often.
  void message(const torch::Tensor& tensor);
  void wait_for_message();
  /// Sums all gradients over the ranks, and waits for the sum.
  void sum();
  /// The tensors of all ranks, stacked, as BatchNorm layers ask for them. Counts for gather_wait().
  torch::Tensor gather(const torch::Tensor& mine);
  /// Seconds in gathers since the last call of restart(), and their number.
  double gather_wait() const { return gather_wait_; }
  int gather_count() const { return gather_count_; }
  void restart() { gather_wait_ = gather_count_ = 0; }

 private:
  Comm& comm_;
  int peer_;
  double gather_wait_ = 0;
  int gather_count_ = 0;
  torch::Tensor gradients_, sent_, received_;
  std::unique_ptr<Comm::Work> works_[2];
};

}  // namespace penstock::detail
