// Task times: when the tasks of several ranks begin and end that share the cores of one machine.
#pragma once

#include <cstddef>
#include <vector>

namespace penstock::detail {

/// Seconds that some work takes: on a machine that does nothing else; while the other cores do the same work, so that
/// caches and memory are shared; and alone, but after a wait for the others, so that its caches are cold.
struct Work {
  double alone = 0, beside = 0, in_turn = 0;

  static Work of(double seconds) { return {seconds, seconds, seconds}; }
  Work& operator+=(const Work& other) {
    return alone += other.alone, beside += other.beside, in_turn += other.in_turn, *this;
  }
  friend Work operator+(Work a, const Work& b) { return a += b; }
  friend Work operator*(Work work, double factor) {
    return {work.alone * factor, work.beside * factor, work.in_turn * factor};
  }
};

struct Task {
  size_t stream = 0;  // tasks of one stream run one after the other, in the order of the list
  Work work = {};
  double cores = 1;                // in use while it runs with no other task; 0: it waits, and slows nobody down
  double latency = 0;              // seconds from its end until the tasks that need it may begin
  std::vector<size_t> after = {};  // tasks that it needs
};

struct TaskTime {
  double begin = 0, end = 0;
};

/// One entry per task. A task begins when its stream is free and what it needs is there. Its core, and how many others
/// that has to do, follow from CoreQueues. After a wait of its stream its caches are cold. Between `alone` and `beside`
/// its time is linear in how many of the other cores are busy.
///
/// Throws bug_error if tasks wait for each other for ever.
std::vector<TaskTime> run_tasks(const std::vector<Task>& tasks, double cores);

}  // namespace penstock::detail
