// RequestLimiter: how many requests are under way at a time; fewer after a service has said that they are too many.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "core/mutex.h"

namespace penstock::detail {

/// Turns that processes share. Thread-safety: any thread.
class SharedTurns {
 public:
  static constexpr int kNoTurn = -1;
  virtual ~SharedTurns() = default;
  virtual int take() = 0;  ///< The number of a turn, or kNoTurn. Does not wait.
  virtual void give_back(int turn) = 0;
  virtual void slow_down() = 0;
  virtual void succeeded() = 0;
  virtual void note_byte() = 0;            ///< A byte came.
  virtual int64_t byte_age_s() const = 0;  ///< Since a byte came to any of the processes.
};

/// Halves its limit when a service says SlowDown, and grows again by one request each time as many as the limit have
/// succeeded, up to the most (additive increase, multiplicative decrease: Chiu and Jain 1989). One per process, and
/// where there is a cache the turns of all that share it besides. Thread-safety: any thread.
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
    int number() const { return number_; }  ///< Its number among all that share the turns; kNoTurn: it has none.

   private:
    void give_back();
    bool wait_for_own(const std::function<bool()>& on_wait);
    void wait_for_shared(const std::function<bool()>& on_wait);

    RequestLimiter& limiter_;
    SharedTurns* shared_ = nullptr;  // of which this is turn number_
    int number_ = SharedTurns::kNoTurn;
  };

  void slow_down();
  void succeeded();
  void note_byte();
  int64_t byte_age_s() const;  ///< Since a byte came to any process that shares the turns; INT64_MAX where none does.
  int limit() const;
  /// Has a turn of `turns` as well for each one from now on. They must live as long as the process.
  void share(SharedTurns& turns) { shared_ = &turns; }

 private:
  const int most_;
  mutable Mutex mutex_;
  CondVar freed_;
  int limit_ PENSTOCK_GUARDED_BY(mutex_);
  int running_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  int successes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::atomic<SharedTurns*> shared_{nullptr};
};

RequestLimiter& request_limiter();  ///< That of this process.

}  // namespace penstock::detail
