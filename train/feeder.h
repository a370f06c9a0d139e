// Feeder: batches as tensors on the device, the copy of batch k+1 under the step of batch k.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "loader/loader.h"
#include "train/device_batch.h"
#include "train/recorder.h"

namespace penstock {

/// Thread-safety: one consumer thread. Determinism: the loader's.
class Feeder {
 public:
  virtual ~Feeder() = default;
  virtual void start_epoch(int64_t epoch, int64_t first_batch) = 0;
  /// Nothing at the end of the epoch. Marks wait and host-to-device in the recorder.
  virtual std::optional<DeviceBatch> next() = 0;
  virtual int64_t batches_per_epoch() const = 0;
  virtual uint64_t samples_per_epoch() const = 0;  ///< Of this rank.
  virtual LoaderStatistics statistics() const = 0;
};

/// Over a loader: on CUDA from pinned slots (pinned_slots()) on its own stream, one batch ahead; on the CPU the
/// identity (tensors view the slot). A loader of u8 NHWC sends a quarter of the bytes; its batches are normalised on
/// the device.
std::unique_ptr<Feeder> make_host_feeder(std::unique_ptr<Loader> loader, const torch::Device& device,
                                         Recorder& recorder, const Normalization& normalization = {});

/// Keeps this rank's samples decoded on the device as u8 and renders batches there from plans. Same samples, same
/// plans, same order as the loader with these options; pixels equal to rounding.
std::unique_ptr<Feeder> make_resident_feeder(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline,
                                             const LoaderOptions& options, const torch::Device& device,
                                             Recorder& recorder);

}  // namespace penstock
