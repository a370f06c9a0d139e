// GpuUse: how busy the GPU of a run is and how full its memory, sampled by a thread of its own.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "train/measure/metrics.h"
#include "train/measure/nvml.h"

namespace penstock {

/// NVML averages over 1/6 s or more, so that a shorter interval would show nothing new.
constexpr std::chrono::milliseconds kGpuInterval{100};

/// Samples from its construction to its end. Memory: 40 bytes per sample until the next record.
///
/// Thread-safety: put() is for one thread.
class GpuUse {
 public:
  explicit GpuUse(Nvml nvml, std::chrono::milliseconds interval = kGpuInterval);
  ~GpuUse();
  GpuUse(const GpuUse&) = delete;
  GpuUse& operator=(const GpuUse&) = delete;

  /// Puts the samples since the last record into `metrics`, and the means since the last one of its kind.
  void put(Metrics& metrics);

 private:
  struct Sum {
    double busy_percent = 0;
    int64_t most_bytes = 0, count = 0;
  };

  void sample();

  Nvml nvml_;
  std::chrono::milliseconds interval_;
  Mutex mutex_;
  bool is_ended_ PENSTOCK_GUARDED_BY(mutex_) = false;
  std::vector<GpuSample> samples_ PENSTOCK_GUARDED_BY(mutex_);  // since the last record
  CondVar ended_;
  std::array<Sum, 2> sums_;  // one entry per kind of record
  std::thread thread_;       // the last member: it uses the others
};

/// The use of this device, if it is a CUDA device and NVML is there; otherwise null. The environment variable
/// PENSTOCK_NVML names the library. Then it is also used in a run on the CPU, whose NVML's GPU 0 is watched, and `log`
/// hears in one line why there is none; without the variable nothing is said.
std::unique_ptr<GpuUse> watch_gpu(const c10::Device& device, const std::function<void(const std::string&)>& log);

}  // namespace penstock
