// RequestLimiter: how many requests are under way at a time; fewer after a service has said that they are too many.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

namespace penstock::detail {

/// Halves its limit when a service says SlowDown, and grows again by one request each time as many as the limit have
/// succeeded, up to the most (additive increase, multiplicative decrease: Chiu and Jain 1989). One per process.
/// Thread-safety: any thread.
class RequestLimiter {
 public:
  explicit RequestLimiter(int most) : most_(most), limit_(most) {}

  /// Waits for a turn, and has it until it is destroyed. Calls `on_wait` every 100 ms meanwhile, with no lock held, and
  /// goes ahead without a turn when that returns false.
  class Turn {
   public:
    Turn(RequestLimiter& limiter, const std::function<bool()>& on_wait);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    RequestLimiter& limiter_;
  };

  void slow_down();
  void succeeded();
  int limit() const;

 private:
  const int most_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  int limit_, running_ = 0, successes_ = 0;
};

}  // namespace penstock::detail
