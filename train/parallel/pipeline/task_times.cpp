// Task times: a simulation from event to event, between which nothing changes.
#include "train/parallel/pipeline/task_times.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "train/parallel/pipeline/core_queues.h"

namespace penstock::detail {
namespace {

class TaskRun {
 public:
  TaskRun(const std::vector<Task>& tasks, double cores)
      : tasks_(tasks),
        cores_(cores),
        queues_(cores),
        times_(tasks.size()),
        ready_(tasks.size()),
        missing_(tasks.size()),
        wakers_(tasks.size()) {
    needed_by_.resize(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      streams_[tasks[i].stream].tasks.push_back(i);
      missing_[i] = tasks[i].after.size();
      for (const size_t other : tasks[i].after) needed_by_[other].push_back(i);
    }
  }

  std::vector<TaskTime> run() {
    for (uint64_t events = 0; begun_ < tasks_.size() || !running_.empty(); ++events) {
      if (events > kMostEventsPerTask * (tasks_.size() + 1))
        throw config_error(concat("plan-modes: the simulation of ", tasks_.size(), " tasks has not ended after ",
                                  events, " events; expected a --machine with costs that were measured"));
      begin_tasks();
      const double next = next_event();
      if (next == kNever) throw bug_error(concat("plan: ", tasks_.size() - begun_, " tasks wait for ever"));
      advance_to(next);
    }
    return times_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr uint64_t kMostEventsPerTask = 10'000;

  struct Stream {
    std::vector<size_t> tasks;
    size_t next = 0;
    double free_since = 0;  // when its last task ended
    size_t core = 0;        // of its last task
    bool is_busy = false;
    bool is_cold = false;  // after a wait, it has done nothing yet
  };
  struct Running {
    size_t task;
    bool is_cold;
    double left = 1;   // share of the task
    double speed = 0;  // shares per second
  };

  void begin_tasks() {
    for (auto& [number, stream] : streams_) {
      if (stream.is_busy || stream.next == stream.tasks.size()) continue;
      const size_t task = stream.tasks[stream.next];
      if (missing_[task] > 0 || ready_[task] > now_) continue;
      stream.is_busy = true;
      ++stream.next;
      ++begun_;
      times_[task].begin = now_;
      const bool has_waited = now_ > stream.free_since;
      if (stream.next == 1)
        stream.core = queues_.core_for_new();
      else if (has_waited)
        stream.core = queues_.core_for_woken(stream.core, wakers_[task]);
      running_.push_back({.task = task, .is_cold = has_waited || stream.is_cold});
      stream.is_cold = running_.back().is_cold && tasks_[task].work.alone <= 0;
      queues_.begin(task, tasks_[task].cores, stream.core, now_);
    }
    queues_.pull(now_);
    set_speeds();
  }

  void set_speeds() {
    double wanted = 0;
    for (const auto& one : running_) wanted += tasks_[one.task].cores;
    for (auto& one : running_) {
      const Task& task = tasks_[one.task];
      const double others = wanted - task.cores, other_cores = cores_ - task.cores;
      const double crowd = task.cores == 0 || others <= 0 ? 0
                           : other_cores <= 0             ? 1
                                                          : std::min(1.0, others / other_cores);
      const double warming = one.is_cold ? task.work.in_turn - task.work.alone : 0;
      const double seconds = task.work.alone + (task.work.beside - task.work.alone) * crowd + warming;
      one.speed = seconds <= 0 ? kNever : queues_.share(one.task) / seconds;
    }
  }

  double next_event() const {
    double next = queues_.next_pull();
    for (const auto& one : running_) next = std::min(next, one.speed == kNever ? now_ : now_ + one.left / one.speed);
    for (const auto& [number, stream] : streams_)
      if (!stream.is_busy && stream.next < stream.tasks.size() && missing_[stream.tasks[stream.next]] == 0)
        next = std::min(next, ready_[stream.tasks[stream.next]]);
    return next;
  }

  void advance_to(double time) {
    const double passed = time - now_;
    now_ = time;
    std::vector<Running> still;
    for (auto one : running_) {
      if (one.speed != kNever) one.left -= passed * one.speed;
      if (one.speed == kNever || one.left <= kRounding)
        end(one.task);
      else
        still.push_back(one);
    }
    running_ = std::move(still);
  }

  void end(size_t task) {
    times_[task].end = now_;
    queues_.end(task, now_);
    auto& stream = streams_[tasks_[task].stream];
    stream.is_busy = false;
    stream.free_since = now_;
    for (const size_t other : needed_by_[task]) {
      --missing_[other];
      wakers_[other] = stream.core;
      ready_[other] = std::max(ready_[other], now_ + tasks_[task].latency);
    }
  }

  static constexpr double kRounding = 1e-9;  // share of a task that counts as nothing left

  const std::vector<Task>& tasks_;
  double cores_, now_ = 0;
  CoreQueues queues_;
  std::vector<TaskTime> times_;
  std::vector<double> ready_;    // one entry per task, as of the next two: when what it needs is there
  std::vector<size_t> missing_;  // of what it needs, tasks that have not ended
  std::vector<size_t> wakers_;   // the core of the task that it waited for last
  std::vector<std::vector<size_t>> needed_by_;
  std::map<size_t, Stream> streams_;
  std::vector<Running> running_;
  size_t begun_ = 0;
};

}  // namespace

std::vector<TaskTime> run_tasks(const std::vector<Task>& tasks, double cores) { return TaskRun(tasks, cores).run(); }

}  // namespace penstock::detail
