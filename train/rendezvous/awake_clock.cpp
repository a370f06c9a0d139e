// Awake clock: a thread that notices when it has slept for too long.
#include "train/rendezvous/awake_clock.h"

#include <pthread.h>

#include <chrono>
#include <system_error>
#include <thread>

#include "core/clock.h"
#include "core/mutex.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr int64_t kJumpNs = 1'000'000'000;  // threads on busy cores wake late, but not that late

class AwakeClock {
 public:
  AwakeClock() {
    has_thread_ = true;  // before there is one, which reads it
    try {
      std::thread([this] {
        pthread_setname_np(pthread_self(), "awake-clock");
        for (;; std::this_thread::sleep_for(kTick)) now();
      }).detach();
    } catch (const std::system_error&) {
      has_thread_ = false;  // a jump could not be told from a long time between two calls
    }
  }

  int64_t now() {
    const MutexLock lock(mutex_);
    const int64_t now = now_ns(), gap = now - last_ns_;
    last_ns_ = now;
    if (has_thread_ && gap > kJumpNs) {
      paused_ns_ += gap;
      pause_ = {gap, now - paused_ns_};
    }
    return now - paused_ns_;
  }

  Pause pause() {
    now();
    const MutexLock lock(mutex_);
    return pause_;
  }

 private:
  Mutex mutex_;
  int64_t last_ns_ PENSTOCK_GUARDED_BY(mutex_) = now_ns();
  int64_t paused_ns_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  Pause pause_ PENSTOCK_GUARDED_BY(mutex_);
  bool has_thread_ PENSTOCK_GUARDED_BY(mutex_) = false;
};

/// Never destroyed, because its thread ends with the process.
AwakeClock& clock_of_process() {
  static auto& clock = *new AwakeClock;
  return clock;
}

}  // namespace

int64_t awake_ns() { return clock_of_process().now(); }
Pause last_pause() { return clock_of_process().pause(); }

}  // namespace penstock
