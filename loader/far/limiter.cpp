// RequestLimiter: a counting semaphore whose count moves.
#include "loader/far/limiter.h"

#include <algorithm>
#include <chrono>

namespace penstock::detail {

RequestLimiter::Turn::Turn(RequestLimiter& limiter, const std::function<bool()>& on_wait) : limiter_(limiter) {
  constexpr auto kStep = std::chrono::milliseconds(100);
  std::unique_lock lock(limiter_.mutex_);
  while (!limiter_.freed_.wait_for(lock, kStep, [this] { return limiter_.running_ < limiter_.limit_; })) {
    lock.unlock();  // what is asked may take Python's lock and run its signal handlers, which may want a turn
    const bool goes_on = on_wait();
    lock.lock();
    if (!goes_on) break;
  }
  ++limiter_.running_;
}

RequestLimiter::Turn::~Turn() {
  const std::lock_guard lock(limiter_.mutex_);
  --limiter_.running_;
  limiter_.freed_.notify_one();
}

void RequestLimiter::slow_down() {
  const std::lock_guard lock(mutex_);
  limit_ = std::max(1, limit_ / 2);
  successes_ = 0;
}

void RequestLimiter::succeeded() {
  const std::lock_guard lock(mutex_);
  if (limit_ == most_ || ++successes_ < limit_) return;
  successes_ = 0;
  ++limit_;
  freed_.notify_one();
}

int RequestLimiter::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

}  // namespace penstock::detail
