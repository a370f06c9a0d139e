// RequestLimiter: a counting semaphore whose count moves.
#include "loader/far/limiter.h"

#include <algorithm>

namespace penstock::detail {

RequestLimiter::Turn::Turn(RequestLimiter& limiter) : limiter_(limiter) {
  std::unique_lock lock(limiter_.mutex_);
  limiter_.freed_.wait(lock, [this] { return limiter_.running_ < limiter_.limit_; });
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
