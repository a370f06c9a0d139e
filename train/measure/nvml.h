// Nvml: NVIDIA's management library, loaded while the program runs, so that neither the build nor a CPU needs it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "train/measure/metrics.h"

namespace penstock {

/// One GPU as NVML sees it. The library counts GPUs without regard to CUDA_VISIBLE_DEVICES, so a device of CUDA is
/// found by its address on the PCI bus.
///
/// Errors: device_error `/usr/lib/libnvidia-ml.so.1: <what failed>; ...`. Thread-safety: one thread at a time.
class Nvml {
 public:
  /// `library`: a file, or a name that the system's loader finds. `pci_bus_id`: "0000:3B:00.0"; empty: NVML's GPU 0.
  Nvml(const std::string& library, const std::string& pci_bus_id);
  ~Nvml();
  Nvml(Nvml&&) noexcept;

  /// What it says now, without `seconds`; nothing if it does not answer. Costs about 0.1 ms.
  std::optional<GpuSample> read() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  void* device_ = nullptr;
};

}  // namespace penstock
