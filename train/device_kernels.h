// DeviceKernels: runs the device decoder's kernels on a CUDA device or, for tests and small runs, on the processor.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "loader/device_decoder.h"

namespace penstock {

/// Errors: device_error, from the constructor if the kernels cannot be compiled or loaded, from run() if one cannot be
/// started. Thread-safety: one thread.
class DeviceKernels {
 public:
  virtual ~DeviceKernels() = default;
  /// Runs the kernels of `batch` one after the other. On CUDA: on the current stream, without waiting for the device.
  virtual void run(const KernelBatch& batch, std::span<const std::byte> arguments) = 0;
};

std::unique_ptr<DeviceKernels> make_device_kernels(const torch::Device& device);

}  // namespace penstock
