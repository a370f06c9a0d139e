// DeviceKernels: runs the device renderer's kernels on a CUDA device or, for tests and small runs, on the processor.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <span>

#include "loader/device/device_renderer.h"

namespace penstock {

/// On CUDA each kernel is compiled for the device's own architecture, when it is first needed or prepared: 0.1 to 0.8 s
/// each on one core.
///
/// Errors: device_error if a kernel cannot be compiled, loaded or started. Thread-safety: one thread.
class DeviceKernels {
 public:
  virtual ~DeviceKernels() = default;
  /// Begins to compile what these launches run, on threads of its own.
  virtual void prepare([[maybe_unused]] const KernelLaunches& launches) {}
  /// Waits until what was prepared is compiled, and loads it.
  virtual void load() {}
  /// Runs the kernels of a batch one after the other. On CUDA: on the current stream, without waiting for the device.
  virtual void run(const KernelLaunches& launches, std::span<const std::byte> arguments) = 0;
};

std::unique_ptr<DeviceKernels> make_device_kernels(const torch::Device& device);

}  // namespace penstock
