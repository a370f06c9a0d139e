// Watch: sums over the stretches in which an epoch was under way.
#include "loader/bottleneck/watch.h"

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "core/machine.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/bottleneck/observe.h"

namespace penstock {
namespace {

/// What was added since `before`. The histograms are not needed here.
LoaderStatistics since(const LoaderStatistics& before, LoaderStatistics now) {
  now.read.count -= before.read.count;
  now.sample_bytes -= before.sample_bytes;
  now.link = penstock::since(before.link, std::move(now.link));
  for (size_t i = 0; i < std::min(now.workers.size(), before.workers.size()); ++i) {
    auto& worker = now.workers[i];
    const auto& earlier = before.workers[i];
    worker.busy_ms -= earlier.busy_ms;
    worker.cpu_ms -= earlier.cpu_ms;
    worker.queued_ms -= earlier.queued_ms;
    worker.storage_ms = std::max(0.0, worker.storage_ms - earlier.storage_ms);
    worker.storage_bytes -= earlier.storage_bytes;
  }
  return now;
}

}  // namespace

Watch::Counters Watch::Counters::now(pid_t thread) {
  return {.process_cpu = ms_of(cpu_ns(CLOCK_PROCESS_CPUTIME_ID)),
          .queued = ms_of(queued_ns(thread)),
          .all_queued = queued_threads_ms(),
          .busy_cores = busy_cores_ms()};
}

void Watch::begin_wait() {
  if (!is_running_) {
    thread_ = this_thread();
    begin_ = Counters::now(thread_);
    begin_ns_ = now_ns();
    is_running_ = true;
  }
  wait_begin_ns_ = now_ns();
}

void Watch::end_wait(int64_t global_count) {
  wait_ns_ += now_ns() - wait_begin_ns_;
  ++step_count_;
  image_count_ += global_count;
}

void Watch::pause() {
  if (!is_running_) return;
  total_ns_ += now_ns() - begin_ns_;
  const Counters end = Counters::now(thread_);
  // A thread that has ended takes its queueing along, so that the sum over all threads may fall.
  sum_.process_cpu += end.process_cpu - begin_.process_cpu;
  sum_.queued += std::max(0.0, end.queued - begin_.queued);
  sum_.all_queued += std::max(0.0, end.all_queued - begin_.all_queued);
  sum_.busy_cores += std::max(0.0, end.busy_cores - begin_.busy_cores);
  is_running_ = false;
}

LoopMeasurement Watch::observed(LoopMeasurement run, const LoaderStatistics& now) const {
  const auto steps = static_cast<double>(std::max<int64_t>(step_count_, 1));
  const double total_ms = ms_of(total_ns_);
  run.images_per_second = total_ms > 0 ? static_cast<double>(image_count_) * 1e3 / total_ms : 0;
  run.process_queued_ms = sum_.all_queued / steps;
  const MeasuredStep step{.total_ms = total_ms / steps,
                          .wait_ms = ms_of(wait_ns_) / steps,
                          .process_cpu_ms = sum_.process_cpu / steps,
                          .queued_ms = sum_.queued / steps,
                          .busy_cores_ms = sum_.busy_cores / steps};
  const LoopMeasurement mine = observe(std::move(run), step, since(before_, now), step_count_);
  return over_ranks(mine, {mine});
}

std::string too_short_text(const LoopMeasurement& run) {
  constexpr double kLeast_ms = 100;
  const double total_ms = run.step_ms * static_cast<double>(run.step_count);
  if (total_ms >= kLeast_ms) return "";
  return concat("too short to say what limits the loop: ", count_text(static_cast<uint64_t>(run.step_count), "step"),
                " in ", static_cast<int>(total_ms), " ms; expected 50 steps and 2 s, or more");
}

}  // namespace penstock
