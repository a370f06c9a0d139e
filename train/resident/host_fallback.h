// HostFallback: the rows of a batch whose pictures are not on the device, made by a loader and copied there.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "loader/batch/loader.h"

namespace penstock {

/// A loader that leaves out the samples that are on the device, so that it reads and decodes the others alone. Its
/// batches are in step with those of the device: every batch has all rows, of which copy() takes those that are needed.
///
/// Determinism: the rows are those of the loader with these options. Memory: the loader's, and page-locked memory for
/// the rows of a batch that are copied. Errors: the loader's. Thread-safety: one thread.
class HostFallback {
 public:
  /// The loader leaves out the samples for which `is_on_device(index)` is true. Several workers call it at once.
  HostFallback(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, LoaderOptions options,
               std::function<bool(uint64_t index)> is_on_device);

  void start_epoch(int64_t epoch, int64_t first_batch) { loader_.start_epoch(epoch, first_batch); }
  /// The loader's next batch, for which it waits; null at the end of the epoch. The batch is valid until the next call.
  const Batch* next();
  /// Copies rows of the batch that next() gave last to the same rows of `images`. Requires that `rows` ascend and that
  /// `images` have the loader's layout.
  void copy(std::span<const int64_t> rows, const torch::Tensor& images) const;
  LoaderStatistics statistics() const { return loader_.statistics(); }

 private:
  Loader loader_;
  std::optional<Batch> batch_;  // goes back to the loader before that ends
};

}  // namespace penstock
