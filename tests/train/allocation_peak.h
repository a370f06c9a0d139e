// AllocationPeak: the most bytes of tensors that some threads had allocated at a time.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

namespace penstock {

/// Counts the memory that threads take from LibTorch's allocators while they are in count(), on any device. Memory may
/// go from one of these threads to another.
class AllocationPeak {
 public:
  template <class Body>
  void count(const Body& body) {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter_);
    body();
  }
  int64_t bytes() const { return counter_->peak; }

 private:
  struct Counter final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* memory, int64_t byte_count, size_t, size_t, c10::Device) override {
      const std::lock_guard lock(mutex);
      auto& one = held[memory];  // memory that was allocated before counts as 0
      now += std::max<int64_t>(byte_count, 0) - one;
      one = std::max<int64_t>(byte_count, 0);
      peak = std::max(peak, now);
    }
    bool memoryProfilingEnabled() const override { return true; }

    std::mutex mutex;
    std::map<void*, int64_t> held;
    int64_t now = 0, peak = 0;
  };
  std::shared_ptr<Counter> counter_ = std::make_shared<Counter>();
};

}  // namespace penstock
