// KinetoSession: LibTorch's profiler, with the times of operators converted to our clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// One operator on the host, or one kernel or copy on the device. Times are those of now_ns().
struct OpTime {
  std::string name;
  bool is_on_device = false;
  uint64_t lane = 0;  ///< LibTorch's number of the thread, or the number of the device's stream.
  int64_t begin_ns = 0, end_ns = 0;
};

/// Profiles the operators of this thread and of its autograd threads, from construction to stop(). A process can have
/// only one session at a time. Cost: about 1 us per operator, and about 5 us more per operator in stop().
///
/// Clock: Kineto has a clock of its own. The constructor sets marks at known times of now_ns(); stop() finds them in
/// Kineto's result and shifts all of its times by the difference. It uses the mark that was set in the shortest time,
/// so that the error is about 1 us.
///
/// Thread-safety: the constructor and stop() must run on the same thread.
class KinetoSession {
 public:
  explicit KinetoSession(bool with_cuda);
  ~KinetoSession();
  KinetoSession(const KinetoSession&) = delete;
  KinetoSession& operator=(const KinetoSession&) = delete;

  /// The operators, in no particular order. Throws bug_error if Kineto's result does not contain the marks.
  std::vector<OpTime> stop();

 private:
  struct Mark {
    int64_t before_ns, after_ns;
  };
  std::vector<Mark> marks_;
  bool is_on_ = true;
};

}  // namespace penstock
