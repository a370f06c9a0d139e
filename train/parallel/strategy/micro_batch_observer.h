// MicroBatchObserver: hears when the micro-batches of a step run.
#pragma once

#include <cstdint>

#include "train/tensor/device_batch.h"

namespace penstock::detail {

/// This one does nothing. Thread-safety: the training thread's alone.
class MicroBatchObserver {
 public:
  virtual ~MicroBatchObserver() = default;
  /// Around all forwards and backwards of a step. The end comes when the gradients have been summed, and at every rank.
  virtual void begin([[maybe_unused]] const DeviceBatch& batch) {}
  virtual void finish() {}
  /// Around each forward that is not run again. `rows` of the micro-batch.
  virtual void before_forward([[maybe_unused]] int micro_batch) {}
  virtual void after_forward([[maybe_unused]] int micro_batch, [[maybe_unused]] int64_t rows) {}
  /// Before each forward that is run again.
  virtual void before_recompute([[maybe_unused]] int micro_batch) {}
};

}  // namespace penstock::detail
