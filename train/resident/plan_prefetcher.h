// PlanPrefetcher: the plans of the batches to come, made by a thread of their own and copied to the device many at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "train/resident/batch_planner.h"

namespace penstock {

/// Determinism: what is planned when depends on nothing but the numbers of the batches.
///
/// Memory: two windows of up to `window_bytes` each (at least a batch), on the host and on the device. The first
/// windows are shorter, so that the first batch comes soon.
///
/// Errors: what `plan` throws is rethrown by the next() that would have returned a batch of that window. Only
/// start_epoch() may be called after that.
///
/// Thread-safety: one consumer thread. `plan` is used on another one, one call at a time.
class PlanPrefetcher {
 public:
  /// An epoch of MNIST (60,000 rows) has 48 MB of plans, which are one window. The bound keeps the plans of millions
  /// of samples from filling the memory.
  static constexpr int64_t kWindowBytes = 64 << 20;
  static constexpr int64_t kFirstBatches = 4;  // of the first window; each one after it is twice as long

  /// Writes the plans of a batch to `to`, as BatchPlanner::plan() does.
  using Plan = std::function<PlannedBatch(int64_t epoch, int64_t index, std::byte* to)>;
  struct Shape {
    int64_t batches_per_epoch = 0, batch_bytes = 0;
    int64_t epoch_count = -1;  ///< Epochs after it are not planned ahead; -1: any may come.
    int64_t window_bytes = kWindowBytes;
  };

  PlanPrefetcher(const Shape& shape, Plan plan, const torch::Device& device);

  /// From here on next() returns the batches from batch `first_batch` of `epoch` on.
  void start_epoch(int64_t epoch, int64_t first_batch);
  /// The next batch, or nothing at the end of the epoch. Its bytes are on the device, valid on the current stream.
  std::optional<PlannedBatch> next();

 private:
  /// Neighbouring batches of one epoch.
  struct PlanWindow {
    int64_t first_batch = 0;
    std::vector<PlannedBatch> batches;
    torch::Tensor bytes;  // of all batches
    int64_t end() const { return first_batch + static_cast<int64_t>(batches.size()); }
  };

  void begin(int64_t epoch, int64_t first_batch);
  PlanWindow plan_window(int64_t epoch, int64_t first_batch, int64_t count) const;
  void take_window();

  Shape shape_;
  Plan plan_;
  torch::Device device_;
  int64_t most_batches_, batches_;  // of a window: at most, and of the next one
  int64_t epoch_ = 0, next_batch_ = 0;
  PlanWindow window_;
  int64_t ahead_epoch_ = 0, ahead_first_batch_ = 0;
  std::future<PlanWindow> ahead_;  // the last member: its thread uses the others
};

}  // namespace penstock
