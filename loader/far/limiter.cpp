// RequestLimiter: a counting semaphore whose count moves.
#include "loader/far/limiter.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace penstock::detail {
namespace {

constexpr int kMostRequests = 32;  // at a time and process
constexpr auto kOnWaitEvery = std::chrono::milliseconds(100);
constexpr auto kSharedStep = std::chrono::milliseconds(5);  // another process cannot wake this one

}  // namespace

RequestLimiter::Turn::Turn(RequestLimiter& limiter, const std::function<bool()>& on_wait) : limiter_(limiter) {
  if (wait_for_own(on_wait)) wait_for_shared(on_wait);
}

/// False: nobody waits any more.
bool RequestLimiter::Turn::wait_for_own(const std::function<bool()>& on_wait) {
  MutexLock lock(limiter_.mutex_);
  bool goes_on = true;
  while (goes_on && !limiter_.freed_.wait_for(
                        limiter_.mutex_, kOnWaitEvery,
                        [this]() PENSTOCK_REQUIRES(limiter_.mutex_) { return limiter_.running_ < limiter_.limit_; })) {
    lock.unlock();  // what is asked may take Python's lock and run its signal handlers, which may want a turn
    goes_on = on_wait();
    lock.lock();
  }
  ++limiter_.running_;
  return goes_on;
}

void RequestLimiter::Turn::wait_for_shared(const std::function<bool()>& on_wait) {
  shared_ = limiter_.shared_;
  if (shared_ == nullptr) return;
  for (int step = 1; (number_ = shared_->take()) == SharedTurns::kNoTurn; ++step) {
    std::this_thread::sleep_for(kSharedStep);
    if (step % (kOnWaitEvery / kSharedStep) != 0) continue;
    bool goes_on = false;
    try {
      goes_on = on_wait();
    } catch (...) {
      give_back();
      throw;
    }
    if (!goes_on) return;
  }
}

RequestLimiter::Turn::~Turn() { give_back(); }

void RequestLimiter::Turn::give_back() {
  if (number_ != SharedTurns::kNoTurn) shared_->give_back(number_);
  const MutexLock lock(limiter_.mutex_);
  --limiter_.running_;
  limiter_.freed_.notify_one();
}

void RequestLimiter::slow_down() {
  if (SharedTurns* const shared = shared_) shared->slow_down();
  const MutexLock lock(mutex_);
  limit_ = std::max(1, limit_ / 2);
  successes_ = 0;
}

void RequestLimiter::succeeded() {
  if (SharedTurns* const shared = shared_) shared->succeeded();
  const MutexLock lock(mutex_);
  if (limit_ == most_ || ++successes_ < limit_) return;
  successes_ = 0;
  ++limit_;
  freed_.notify_one();
}

void RequestLimiter::note_byte() {
  if (SharedTurns* const shared = shared_) shared->note_byte();
}

int64_t RequestLimiter::byte_age_s() const {
  const SharedTurns* const shared = shared_;
  return shared == nullptr ? INT64_MAX : shared->byte_age_s();
}

int RequestLimiter::limit() const {
  const MutexLock lock(mutex_);
  return limit_;
}

RequestLimiter& request_limiter() {
  static auto& limiter = *new RequestLimiter(kMostRequests);
  return limiter;
}

}  // namespace penstock::detail
