// HostFallback: the rows of a batch whose pictures are not on the device, made by a loader and copied there.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "loader/batch/loader.h"

namespace penstock {

/// Determinism: the rows are those of the loader with these options. Memory: the loader's, and page-locked memory for
/// the rows of a batch that are copied. Errors: the loader's. Thread-safety: one thread.
class HostFallback {
 public:
  /// `is_on_device(index)` says of which samples no row is made here; several workers call it at once.
  HostFallback(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, LoaderOptions options,
               std::function<bool(uint64_t index)> is_on_device);

  void start_epoch(int64_t epoch, int64_t first_batch) { loader_.start_epoch(epoch, first_batch); }
  /// Waits for the loader's next batch; null at the end of the epoch. Valid until the next call.
  const Batch* next();
  /// Copies these rows of that batch to the same rows of `images`, which have the loader's layout. Ascending.
  void copy(std::span<const int64_t> rows, const torch::Tensor& images) const;
  LoaderStatistics statistics() const { return loader_.statistics(); }

 private:
  Loader loader_;
  std::optional<Batch> batch_;  // goes back to the loader before that ends
};

}  // namespace penstock
