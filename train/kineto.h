// Kineto: LibTorch's profiler, with its operators' times on our clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// One operator on the host, or one kernel or copy on the device, by now_ns()'s clock.
struct OpTime {
  std::string name;
  bool is_on_device = false;
  uint64_t lane = 0;  ///< LibTorch's number of the thread, or the device's stream.
  int64_t begin_ns = 0, end_ns = 0;
};

/// Profiles what this thread and the autograd threads under it run, from construction to stop(). One at a time in a
/// process. Cost: about 1 us an operator, and at stop() about 5 us an operator.
///
/// Clock: Kineto has one of its own. Marks set at known times of now_ns() are found again in what it gives, and all its
/// times are shifted by their difference; the mark that was set in the shortest time counts, so that the error is about
/// 1 us.
///
/// Thread-safety: constructor and stop() on one thread.
class KinetoSession {
 public:
  explicit KinetoSession(bool with_cuda);
  ~KinetoSession();
  KinetoSession(const KinetoSession&) = delete;
  KinetoSession& operator=(const KinetoSession&) = delete;

  /// In no order. Throws bug_error when the marks are not in what Kineto gives.
  std::vector<OpTime> stop();

 private:
  struct Mark {
    int64_t before_ns, after_ns;
  };
  std::vector<Mark> marks_;
  bool is_on_ = true;
};

}  // namespace penstock
