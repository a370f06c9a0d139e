// Mutex, MutexLock and CondVar: those of the standard library, with attributes by which clang checks who holds what.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// The attributes of clang's -Wthread-safety, which script/lint runs; nothing for other compilers.
#if defined(__clang__)
#define PENSTOCK_ATTRIBUTE(what) __attribute__((what))
#else
#define PENSTOCK_ATTRIBUTE(what)
#endif
/// A member or variable that is read and written only with this mutex held.
#define PENSTOCK_GUARDED_BY(mutex) PENSTOCK_ATTRIBUTE(guarded_by(mutex))
/// A function that is called, and that returns, with this mutex held; of a lambda it stands after its parameters.
#define PENSTOCK_REQUIRES(mutex) PENSTOCK_ATTRIBUTE(requires_capability(mutex))
#define PENSTOCK_ACQUIRE(...) PENSTOCK_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define PENSTOCK_RELEASE(...) PENSTOCK_ATTRIBUTE(release_capability(__VA_ARGS__))
#define PENSTOCK_TRY_ACQUIRE(result) PENSTOCK_ATTRIBUTE(try_acquire_capability(result))
#define PENSTOCK_SCOPED_CAPABILITY PENSTOCK_ATTRIBUTE(scoped_lockable)
/// A function whose body is not checked. A comment beside it says why it is right all the same.
#define PENSTOCK_NO_THREAD_SAFETY_ANALYSIS PENSTOCK_ATTRIBUTE(no_thread_safety_analysis)

namespace penstock {

/// A std::mutex. libstdc++'s own has no attributes. Not checked by clang: constructors and destructors, what is reached
/// through a reference to a guarded object, and members of an object that another one's mutex guards.
class PENSTOCK_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() PENSTOCK_ACQUIRE() { mutex_.lock(); }
  void unlock() PENSTOCK_RELEASE() { mutex_.unlock(); }
  bool try_lock() PENSTOCK_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a mutex as long as it lives, but for the time between unlock() and lock().
class PENSTOCK_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PENSTOCK_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  /// Takes over a mutex that the caller holds.
  MutexLock(Mutex& mutex, std::adopt_lock_t) PENSTOCK_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() PENSTOCK_RELEASE() {
    if (is_held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() PENSTOCK_RELEASE() {
    is_held_ = false;
    mutex_.unlock();
  }
  void lock() PENSTOCK_ACQUIRE() {
    mutex_.lock();
    is_held_ = true;
  }

 private:
  Mutex& mutex_;
  bool is_held_ = true;
};

/// Gives up a mutex that a caller holds, as long as it lives. (To clang, its destructor releases what its constructor
/// has, which was a release.)
class PENSTOCK_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) PENSTOCK_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexUnlock() PENSTOCK_RELEASE() { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

/// A std::condition_variable: std::condition_variable_any would lock a second mutex in each wait and each notification.
/// Conditions are called with the mutex held, which clang does not see here and checks in their own PENSTOCK_REQUIRES.
class CondVar {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(Mutex& mutex) PENSTOCK_REQUIRES(mutex) {
    Adopted held(mutex.mutex_);
    condition_.wait(held.lock);
  }
  template <class Condition>
  void wait(Mutex& mutex, const Condition& is_met) PENSTOCK_REQUIRES(mutex) PENSTOCK_NO_THREAD_SAFETY_ANALYSIS {
    while (!is_met()) wait(mutex);
  }

  template <class Clock, class Duration>
  std::cv_status wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& time)
      PENSTOCK_REQUIRES(mutex) {
    Adopted held(mutex.mutex_);
    return condition_.wait_until(held.lock, time);
  }
  /// Whether the condition is met.
  template <class Clock, class Duration, class Condition>
  bool wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& time, const Condition& is_met)
      PENSTOCK_REQUIRES(mutex) PENSTOCK_NO_THREAD_SAFETY_ANALYSIS {
    while (!is_met())
      if (wait_until(mutex, time) == std::cv_status::timeout) return is_met();
    return true;
  }

  template <class Rep, class Period>
  std::cv_status wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& time) PENSTOCK_REQUIRES(mutex) {
    Adopted held(mutex.mutex_);
    return condition_.wait_for(held.lock, time);
  }
  template <class Rep, class Period, class Condition>
  bool wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& time, const Condition& is_met)
      PENSTOCK_REQUIRES(mutex) {
    using Clock = std::chrono::steady_clock;
    return wait_until(mutex, Clock::now() + std::chrono::ceil<Clock::duration>(time), is_met);
  }

 private:
  /// The lock of a mutex that the caller holds, before and after.
  struct Adopted {
    explicit Adopted(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace penstock
