// Observing: sums over workers, and what is taken out of a step because it is not the step's own.
#include "loader/bottleneck/observe.h"

#include <algorithm>

#include "loader/bottleneck/disk.h"
#include "loader/cache/ahead.h"

namespace penstock {
namespace {

/// Threads that compute together wait for the slowest one, and LibTorch's threads spin while they wait. If one of them
/// queues for a core, the step stands still and the others use processor time. Both are taken out of the step's own
/// times here.
void take_out_waits_of_helpers(double helpers_queued, double main_queued, StepCosts& times) {
  constexpr double kMost = 0.8;  // share of the step; the counters include the evaluations of the run
  if (helpers_queued <= 0) return;
  const double stalled = std::min(helpers_queued, kMost * times.update_ms);
  times.update_ms -= stalled;
  const double all_cpu_ms = times.update_cpu_ms;
  times.update_cpu_ms = std::max(times.update_ms, all_cpu_ms - stalled - main_queued);
  times.spun_ms = std::max(0.0, all_cpu_ms - times.update_cpu_ms);
}

double image_bytes_of(const LoaderStatistics& loader) {
  return loader.read.count == 0 ? 0 : static_cast<double>(loader.sample_bytes) / static_cast<double>(loader.read.count);
}

/// What workers of their own take per batch, of `batches` that they made.
void set_load_of_workers(const LoaderStatistics::Worker& all, double batches, StepCosts& times) {
  times.load_cpu_ms = all.cpu_ms / batches;
  times.load_ms = std::max(times.load_cpu_ms + times.storage_ms, (all.busy_ms - all.queued_ms) / batches);
}

/// The waits for shards, as measured, depend on how many workers waited for the same bytes. In their place comes what a
/// lone worker would wait for, shards that nobody had asked for before it did, and what the threads that fetch ahead
/// take for the others.
void settle_link(const LoaderStatistics& loader, double batches, LoopMeasurement& run) {
  const LinkStats& link = loader.link;
  auto& times = run.times;
  if (link.fetched_bytes == 0 && link.stall_ms <= 0) return;
  run.link_bytes_per_second = link.rate();
  run.link_bytes = static_cast<double>(link.fetched_bytes) / batches;
  if (loader.sample_bytes > 0)
    run.cache_share =
        std::max(0.0, 1 - static_cast<double>(link.fetched_bytes) / static_cast<double>(loader.sample_bytes));
  run.is_emulated = run.is_emulated || link.is_emulated;
  times.link_busy_ms = link.flow_ms() / batches;
  if (link.request_count > 0) {
    const auto requests = static_cast<double>(link.request_count);
    run.link_delay_ms = link.latency_ms / requests;
    run.link_request_bytes = static_cast<double>(link.fetched_bytes) / requests;
  }
  times.link_latency_ms = static_cast<double>(link.miss_count) * run.link_delay_ms / batches;
  times.link_requests = detail::Ahead::kThreads;
  times.link_delays_ms = static_cast<double>(link.ahead_count) * run.link_delay_ms / batches / times.link_requests;
  const double bytes_ms = link.rate() > 0 ? static_cast<double>(link.miss_bytes) * 1e3 / link.rate() / batches : 0;
  times.link_ms = std::min(link.stall_ms / batches, times.link_latency_ms + bytes_ms);
  times.link_latency_ms = std::min(times.link_latency_ms, times.link_ms);
  times.load_ms = std::max(times.load_cpu_ms, times.load_ms - link.stall_ms / batches) + times.link_ms;
}

/// What a batch takes that the consumer's own thread makes in `load_ms`.
void set_load_of_consumer(double load_ms, StepCosts& times) {
  times.load_ms = load_ms;
  times.storage_ms = std::min(times.storage_ms, times.load_ms);
  times.load_cpu_ms = times.load_ms - times.storage_ms;
}

}  // namespace

LoopMeasurement observe(LoopMeasurement run, const MeasuredStep& step, const LoaderStatistics& loader,
                        int64_t step_count) {
  const LoaderStatistics::Worker all = loader.all_workers();
  const auto steps = static_cast<double>(std::max<int64_t>(step_count, 1));
  auto& times = run.times;
  run.step_count = step_count;
  run.step_ms = step.total_ms;
  run.wait_ms = step.wait_ms;
  const double available_ms = run.step_ms * steps * static_cast<double>(loader.workers.size());
  run.loader_idle_share = available_ms > 0 ? std::clamp(1 - all.busy_ms / available_ms, 0.0, 1.0) : 0;
  times.communication_ms = step.communication_ms;
  // The kernel counts only the queueing of the whole step. It is divided between waiting and working in proportion to
  // their lengths. The phases of a device contain no queueing.
  const double running = run.step_ms > 0 && !times.is_async ? std::max(0.0, 1 - step.queued_ms / run.step_ms) : 1;
  times.update_ms = (run.step_ms - run.wait_ms) * running;
  if (run.workers > 0 && !times.is_async) {
    // The training thread sleeps while it waits for a batch, so it queues only in the rest of its step, where it needs
    // the processor.
    const double updating = run.step_ms - run.wait_ms;
    const double own_cpu = std::max(0.0, step.process_cpu_ms - all.cpu_ms / steps) / times.update_threads;
    times.update_ms = std::max(updating - step.queued_ms, std::min(updating * running, own_cpu));
  }
  times.storage_ms = all.storage_ms / steps;
  run.storage_bytes = static_cast<double>(all.storage_bytes) / steps;
  if (run.workers == 0)
    set_load_of_consumer(times.is_async ? all.busy_ms / steps : run.wait_ms * running, times);
  else
    set_load_of_workers(all, steps, times);
  settle_link(loader, steps, run);
  times.update_cpu_ms = std::max(0.0, step.process_cpu_ms - times.load_cpu_ms);
  const double worker_queued_ms = run.workers > 0 ? all.queued_ms / steps : 0;
  const double helpers_queued =
      times.update_threads > 1 ? run.process_queued_ms - step.queued_ms - worker_queued_ms : 0;
  take_out_waits_of_helpers(std::max(0.0, helpers_queued), step.queued_ms, times);
  // Without workers, the queueing of the training thread includes that of loading.
  run.queued_ms = step.queued_ms + std::max(0.0, helpers_queued) + worker_queued_ms;
  run.busy_cores = run.step_ms > 0 ? step.busy_cores_ms / run.step_ms : 0;
  if (loader.read.count > 0) run.image_bytes = image_bytes_of(loader);
  return run;
}

namespace {

/// What came for all ranks. The rate is that of the link of this machine, which each of its ranks has measured for all
/// of them; where this rank fetched nothing, it is what all have got in the time in which bytes came for any of them.
void settle_link_of_ranks(double link_bytes, LoopMeasurement& run) {
  if (link_bytes <= 0) return;
  run.link_bytes = link_bytes;
  if (run.link_bytes_per_second <= 0 && run.times.link_busy_ms > 0)
    run.link_bytes_per_second = link_bytes * 1e3 / run.times.link_busy_ms;
  const double image_bytes = run.image_bytes * run.images_per_second * run.step_ms * 1e-3;
  if (image_bytes > 0) run.cache_share = std::max(0.0, 1 - link_bytes / image_bytes);
}

}  // namespace

LoopMeasurement over_ranks(LoopMeasurement mine, const std::vector<LoopMeasurement>& all) {
  const auto count = static_cast<double>(all.size());
  double wait = mine.wait_ms, load_cpu = 0, update_cpu = 0, spun = 0, storage = 0, queued = 0, link_bytes = 0;
  for (const auto& rank : all) {
    wait = std::max(wait, rank.wait_ms);
    mine.times.load_ms = std::max(mine.times.load_ms, rank.times.load_ms);
    if (rank.times.link_ms > mine.times.link_ms) {
      mine.times.link_ms = rank.times.link_ms;
      mine.times.link_latency_ms = rank.times.link_latency_ms;
    }
    link_bytes += rank.link_bytes;
    // The time in which bytes came for any rank of its machine.
    mine.times.link_busy_ms = std::max(mine.times.link_busy_ms, rank.times.link_busy_ms);
    mine.times.link_delays_ms = std::max(mine.times.link_delays_ms, rank.times.link_delays_ms);
    load_cpu += rank.times.load_cpu_ms / count;
    update_cpu += rank.times.update_cpu_ms / count;
    spun += rank.times.spun_ms / count;
    storage += rank.times.storage_ms / count;
    queued += rank.queued_ms / count;
  }
  mine.times.link_requests = detail::Ahead::kThreads * mine.times.ranks;
  settle_link_of_ranks(link_bytes, mine);
  const double echo = std::min(wait - mine.wait_ms, mine.times.communication_ms);
  mine.wait_ms += echo;
  mine.times.communication_ms -= echo;
  mine.times.update_ms = std::max(0.0, mine.times.update_ms - echo);
  mine.times.load_cpu_ms = load_cpu;
  mine.times.update_cpu_ms = update_cpu;
  mine.times.spun_ms = spun;
  mine.times.storage_ms = std::min(storage, mine.times.load_ms);
  mine.queued_ms = queued;
  if (mine.step_ms <= 0) return mine;
  const double ranks = mine.times.ranks;
  mine.times.storage_readers = std::max(1.0, ranks * mine.times.storage_ms / mine.step_ms);
  const double working = ranks * (load_cpu + update_cpu) / mine.step_ms, spinning = ranks * spun / mine.step_ms;
  const double queueing = ranks * queued / mine.step_ms;
  mine.times.other_threads = other_threads(mine.busy_cores, working + spinning, queueing);
  // Threads that spin take cores from the others as another program would, but they are none.
  if (spinning > 0)
    mine.times.spinning_threads =
        std::max(0.0, other_threads(mine.busy_cores, working, queueing) - mine.times.other_threads);
  return mine;
}

LoopMeasurement foresee(LoopMeasurement run, const LoaderStatistics& loader, double made_batches,
                        double images_per_batch, double step_ms, double step_cpu_ms) {
  const LoaderStatistics::Worker all = loader.all_workers();
  auto& times = run.times;
  times.storage_ms = all.storage_ms / made_batches;
  run.storage_bytes = static_cast<double>(all.storage_bytes) / made_batches;
  run.image_bytes = image_bytes_of(loader);
  if (run.workers == 0)
    set_load_of_consumer(all.busy_ms / made_batches, times);
  else
    set_load_of_workers(all, made_batches, times);
  settle_link(loader, made_batches, run);
  times.update_ms = step_ms;
  times.update_cpu_ms = step_cpu_ms;
  times.update_threads = step_ms > 0 ? std::max(1.0, step_cpu_ms / step_ms) : 1;
  run.step_ms = predicted_step_ms(times, run.workers);
  run.wait_ms = std::max(0.0, run.step_ms - step_ms);
  const double available_ms = run.step_ms * run.workers;
  run.loader_idle_share = available_ms > 0 ? std::clamp(1 - times.load_ms / available_ms, 0.0, 1.0) : 0;
  run.images_per_second = run.step_ms > 0 ? images_per_batch * 1e3 / run.step_ms : 0;
  times.storage_readers = run.step_ms > 0 ? std::max(1.0, times.ranks * times.storage_ms / run.step_ms) : 1;
  return run;
}

void ask_storage(LoopMeasurement& run, const Dataset& dataset, const RankShards& share) {
  constexpr double kWorthAsking = 0.05;  // share of a step
  const bool is_link_busy = std::max(run.times.link_busy_ms, run.times.link_ms) >= kWorthAsking * run.step_ms;
  if (is_link_busy) run.coefficient_share = coefficient_share(dataset, share);
  if (run.times.storage_ms < kWorthAsking * run.step_ms) return;
  const auto rate = measure_disk(shard_files(dataset));
  settle_storage(run, rate ? rate->one : 0, rate ? rate->most : 0);
  run.coefficient_share = coefficient_share(dataset, share);
}

}  // namespace penstock
