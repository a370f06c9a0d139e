// GpuUse: the thread that samples, and which GPU it asks.
#include "train/measure/gpu_monitor.h"

#ifdef PENSTOCK_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";  // of the driver

/// "0000:3B:00.0"; empty on the CPU. Throws device_error if the run time does not say it.
std::string pci_bus_id(const c10::Device& device) {
  if (!device.is_cuda()) return {};
#ifdef PENSTOCK_HAS_CUDA
  char text[32] = "";
  if (cudaDeviceGetPCIBusId(text, sizeof(text), device.has_index() ? device.index() : 0) == cudaSuccess) return text;
  cudaGetLastError();  // otherwise the next call of the run time would find it
#endif
  throw device_error(concat("the address of ", device.str(), " on the PCI bus is not known; expected one"));
}

}  // namespace

GpuUse::GpuUse(Nvml nvml, std::chrono::milliseconds interval)
    : nvml_(std::move(nvml)), interval_(interval), thread_([this] { sample(); }) {}

GpuUse::~GpuUse() {
  {
    const MutexLock lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void GpuUse::sample() {
  const int64_t start_ns = now_ns();
  MutexLock lock(mutex_);
  while (!is_ended_) {
    lock.unlock();
    auto sample = nvml_.read();  // a driver may take its time; put() does not wait for it
    lock.lock();
    if (sample) {
      sample->seconds = ms_since(start_ns) * 1e-3;
      samples_.push_back(*sample);
    }
    ended_.wait_for(mutex_, interval_, [this]() PENSTOCK_REQUIRES(mutex_) { return is_ended_; });
  }
}

void GpuUse::put(Metrics& metrics) {
  {
    const MutexLock lock(mutex_);
    metrics.gpu_samples = std::exchange(samples_, {});
  }
  for (auto& sum : sums_)
    for (const auto& sample : metrics.gpu_samples) {
      sum.busy_percent += sample.busy_percent;
      sum.most_bytes = std::max(sum.most_bytes, sample.memory_bytes);
      ++sum.count;
    }
  const Sum sum = std::exchange(sums_[static_cast<size_t>(metrics.kind)], {});
  if (sum.count == 0) return;
  metrics.gpu_busy_percent = sum.busy_percent / static_cast<double>(sum.count);
  metrics.gpu_memory_bytes = sum.most_bytes;
}

std::unique_ptr<GpuUse> watch_gpu(const c10::Device& device, const std::function<void(const std::string&)>& log) {
  const char* asked = std::getenv("PENSTOCK_NVML");
  if (!device.is_cuda() && asked == nullptr) return nullptr;
  try {
    return std::make_unique<GpuUse>(Nvml(asked != nullptr ? asked : kNvmlLibrary, pci_bus_id(device)));
  } catch (const Error& error) {
    if (asked != nullptr) log(concat("PENSTOCK_NVML: ", error.what(), "; the use of the GPU is not recorded"));
    return nullptr;
  }
}

}  // namespace penstock
