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

 private:
  Comm& comm_;
  int peer_;
  torch::Tensor gradients_, sent_, received_;
  std::unique_ptr<Comm::Work> works_[2];
};

}  // namespace penstock::detail
