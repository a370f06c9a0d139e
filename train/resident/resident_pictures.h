// ResidentPictures: the pictures of a data set in the memory of a device, as they are stored.
//
// Lives here: --resident: pictures that stay in the device's memory, the plans of their batches, and the kernels of
// loader/device on a GPU.
// Not here: the kernels' own text (loader/device), and the CUDA graph of a step (train/loop/cuda_graph_step.h).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "loader/batch/loader.h"
#include "loader/device/device_renderer.h"

namespace penstock {

/// What a resident feeder does where the pictures are too many for the memory of the device.
struct ResidentRoom {
  std::optional<int64_t> free_bytes = {};                 ///< Nothing: what the device says; the CPU has no limit.
  std::function<void(const std::string&)> log = nullptr;  ///< Hears in one line how many stay on the device.
};

/// Raw pixels and JPEG coefficients are copied to the device as they are. Where they do not fit, the first samples stay
/// there, as many as fit, and the rows of the others are left to a loader on the host.
///
/// Memory on the device: the bytes of this rank's samples (coefficients: 1.10 times the bytes of the JPEGs, for 199
/// photographs of ImageNet). On the host: 72 bytes per sample.
/// Thread-safety: immutable after construction.
class ResidentPictures {
 public:
  /// This rank's samples are all that its epochs may have (SampleOrder). Throws config_error for
  /// pictures that the device cannot render, or that are of several sizes after the transforms; device_error with both
  /// numbers where fewer fit than a batch has; and what reading the samples throws.
  ResidentPictures(const Dataset& dataset, const Pipeline& pipeline, const LoaderOptions& options,
                   int64_t rows_per_rank, const torch::Device& device, const ResidentRoom& room);

  struct Entry {
    static constexpr uint32_t kCorrupt = ~uint32_t{0}, kOnHost = kCorrupt - 1;
    uint64_t id = 0;
    int64_t label = 0;
    uint32_t number = kCorrupt;  // among pictures()
    bool is_corrupt() const { return number == kCorrupt; }
    bool is_on_host() const { return number == kOnHost; }
  };
  /// `index` is the sample's in the data set.
  const Entry& operator[](uint64_t index) const { return entries_[index]; }

  bool are_all_here() const { return are_all_here_; }
  bool are_all_raw() const { return are_all_raw_; }
  const Extent& row_extent() const { return row_extent_; }
  const DevicePictures& pictures() const { return pictures_; }
  /// Stores, codebooks and tables of quantisation; the other addresses are null.
  DeviceAddresses addresses() const;

 private:
  class Upload;

  DevicePictures pictures_;
  std::vector<Entry> entries_;  // one per sample of the data set, filled for those of this rank
  bool are_all_here_ = true, are_all_raw_ = true;
  Extent row_extent_;
  torch::Tensor stores_, codebooks_, quant_tables_;
};

}  // namespace penstock
