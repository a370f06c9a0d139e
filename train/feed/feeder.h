// Feeder: batches as tensors on the device; batch k + 1 is copied while the step of batch k runs.
//
// Lives here: batches on the device: the loader's as tensors, copied ahead of the step, and the data sets of a run.
// Not here: making rows (loader/batch), and pictures that stay on the device (train/resident).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "loader/batch/loader.h"
#include "train/measure/recorder.h"
#include "train/tensor/device_batch.h"

namespace penstock {

/// Thread-safety: one consumer thread. Determinism: the loader's.
class Feeder {
 public:
  virtual ~Feeder() = default;
  virtual void start_epoch(int64_t epoch, int64_t first_batch) = 0;
  /// The next batch, or nothing at the end of the epoch. Marks the phases wait and host_to_device in the recorder.
  virtual std::optional<DeviceBatch> next() = 0;
  virtual int64_t batches_per_epoch() const = 0;
  virtual uint64_t samples_per_epoch() const = 0;  ///< Samples of this rank.
  virtual LoaderStatistics statistics() const = 0;

  /// For a step that makes its batch itself (CudaGraphStep), before the first epoch: from now on next() gives batches
  /// without tensors, and make() sets those of the batch that came last. False: this feeder makes its batches itself.
  virtual bool defer_rendering() { return false; }
  /// Requires defer_rendering(). For batches of equal `rows`, `count` and render_variant() these are the same
  /// operations, which read the same memory; what they are does not depend on the batch, and nothing is copied from the
  /// host.
  virtual void make([[maybe_unused]] DeviceBatch& batch) {}
  virtual int64_t render_variant() const { return 0; }
};

/// A feeder over a loader. On CUDA it copies from pinned slots (pinned_slots()), on a stream of its own, one batch
/// ahead; on the CPU it copies nothing, and the tensors are views of the slot. With the layout u8 NHWC a quarter of the
/// bytes is copied, and the batches are normalised on the device.
std::unique_ptr<Feeder> make_host_feeder(std::unique_ptr<Loader> loader, const torch::Device& device,
                                         Recorder& recorder, const Normalization& normalization = {});

}  // namespace penstock
