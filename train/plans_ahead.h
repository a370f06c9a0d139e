// PlansAhead: the plans of the batches to come, planned by a thread of their own and copied to the device many at once.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "loader/loader.h"
#include "train/device_batch.h"
#include "train/device_render.h"

namespace penstock {

/// Determinism: the batches are those of `ids`; what is planned when depends on nothing but the numbers of the batches.
///
/// Memory: two stretches of up to `stretch_bytes` each (at least a batch), on the host and on the device.
///
/// Errors: what `ids` and `plan` throw is rethrown by the next() that would have returned a batch of that stretch.
///
/// Thread-safety: one consumer thread. `ids` and `plan` are used on another one, one call at a time.
class PlansAhead {
 public:
  /// An epoch of MNIST (60,000 rows) has 25 MB of plans, which are one stretch. The bound keeps the plans of millions
  /// of samples from filling the memory.
  static constexpr int64_t kStretchBytes = 64 << 20;

  /// Writes what stands in the rows of `ids` to `rows`.
  using Plan = std::function<void(const Batch& ids, std::vector<PlannedRow>& rows)>;

  /// `ids` outlives this, and nobody else calls its start_epoch() and next().
  PlansAhead(Loader& ids, Plan plan, int channels, const torch::Device& device, int64_t stretch_bytes = kStretchBytes);

  /// From here on next() returns the batches from batch `first_batch` of `epoch` on.
  void start_epoch(int64_t epoch, int64_t first_batch);

  struct Planned {
    DeviceBatch batch;  ///< Without tensors.
    PlanBatch plans;    ///< Of its `count` rows: a view of the stretch, with the needs of all of its rows.
  };
  /// The next batch, or nothing at the end of the epoch. The plans are valid on the current stream of the device.
  std::optional<Planned> next();

 private:
  /// Neighbouring batches of one epoch.
  struct Stretch {
    int64_t first_batch = 0;
    std::vector<DeviceBatch> batches;
    PlanBatch plans;  // rows_per_batch_ rows per batch
    bool ends_epoch = false;
  };

  void begin(int64_t epoch, int64_t first_batch, bool goes_on);
  Stretch plan_stretch(int64_t epoch, int64_t first_batch, bool goes_on);
  void take_stretch();

  Loader& ids_;
  Plan plan_;
  int channels_;
  torch::Device device_;
  int64_t rows_per_batch_, batches_per_stretch_;
  int64_t epoch_ = 0, next_batch_ = 0;
  Stretch stretch_;
  int64_t ahead_epoch_ = 0, ahead_first_batch_ = 0;
  std::future<Stretch> ahead_;  // the last member: its thread uses the others
};

}  // namespace penstock
