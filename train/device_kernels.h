// DeviceKernels: runs the device decoder's kernels on a CUDA device or, for tests and small runs, on the processor.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

/// Bytes that are free on a CUDA device; nothing on the CPU.
std::optional<int64_t> free_kernel_memory(const torch::Device& device);

/// Throws device_error with both numbers, and what share would fit, unless `byte_count` bytes fit into `free_bytes`.
void require_room_for_coefficients(int64_t picture_count, int64_t byte_count, int64_t free_bytes);

}  // namespace penstock
