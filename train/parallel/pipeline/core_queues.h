// Core queues: which core a task runs on, and with how many others, as Linux does it.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace penstock::detail {

/// The rules of kernel/sched/fair.c in Linux 6.18. A thread that is woken goes back to its core or to that of whoever
/// has woken it, if one of them is idle. Others are looked at only while the machine is idle enough (SIS_UTIL). There
/// it stays, even if another core becomes idle: such a core takes a waiting thread at once only if it expects to be
/// idle for longer than a migration costs, and otherwise at a later tick, as a core does that has two threads less than
/// another one. So threads wait for one core while the other one is idle: in two fifths of the time with four stages of
/// LeNet on two cores, by `perf sched`.
///
/// `now` is in seconds, and never less than before.
class CoreQueues {
 public:
  explicit CoreQueues(double cores);

  /// Where a new thread goes.
  size_t core_for_new() const;
  /// Where a thread goes that ran on `last` and is woken from `waker`.
  size_t core_for_woken(size_t last, size_t waker) const;
  /// A task of `load` cores begins on this one; of 1.5 or more, it runs on all cores.
  void begin(size_t task, double load, size_t core, double now);
  void end(size_t task, double now);

  /// The part of the cores it wants that a running task has.
  double share(size_t task) const;
  /// When a core takes a task from another one; infinity: none does.
  double next_pull() const;
  /// Does so if it is time.
  void pull(double now);

 private:
  struct Core {
    std::vector<size_t> tasks;  // of this core alone, in the order in which they came
    double load = 0;
    double since = 0;       // when a task came or went
    double usual_idle = 1;  // seconds; of the idle times until now, the last ones count most
  };
  struct Place {
    size_t core = 0;
    double load = 0;  // on each of its cores
    bool is_everywhere = false;
  };

  static bool is_idle(const Core& core) { return core.load <= 0; }
  bool looks_further() const;
  void pass_time(double now);
  size_t fullest() const;
  /// When this one takes a task from that one.
  double pull_time(const Core& core, const Core& from) const;
  void add(Core& core, double load, double now);
  void remove(Core& core, double load, double now);

  std::vector<Core> cores_;
  std::map<size_t, Place> places_;  // of running tasks
  double now_ = 0, used_ = 0;       // used: part of the cores, lately
};

}  // namespace penstock::detail
