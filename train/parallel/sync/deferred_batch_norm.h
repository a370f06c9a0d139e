// DeferredBatchNorm: the running statistics of BatchNorm move once per step, by those of the whole batch.
#pragma once

#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/strategy/micro_batch_observer.h"
#include "train/parallel/strategy/model_part.h"

namespace penstock {

class BatchNorm2dImpl;

namespace detail {

/// As long as this lives, the BatchNorm layers of `part` normalise by a micro-batch as before, and what they see in it
/// is put aside. At the end of a step the ranks of `data` gather that, 2 C + 1 numbers of f64 for each layer of C
/// channels, and the running statistics move by those of all micro-batches of all ranks, as where the batch is whole.
/// Forwards that are run again do not count.
class DeferredBatchNorm final : public MicroBatchObserver {
 public:
  DeferredBatchNorm(const Model& model, const ModelPart& part, Comm& data);
  ~DeferredBatchNorm() override;
  DeferredBatchNorm(const DeferredBatchNorm&) = delete;
  DeferredBatchNorm& operator=(const DeferredBatchNorm&) = delete;

  /// Collective over the ranks of `data`.
  void finish() override;
  void before_forward(int micro_batch) override;
  void after_forward(int micro_batch, int64_t rows) override;

 private:
  Comm& data_;
  std::vector<std::shared_ptr<BatchNorm2dImpl>> layers_;
};

}  // namespace detail
}  // namespace penstock
