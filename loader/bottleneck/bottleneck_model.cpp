// The model of bottleneck.h: operational bounds, processor sharing, and a storage that all readers share.
#include "loader/bottleneck/bottleneck_model.h"

#include <algorithm>

#include "core/machine.h"

namespace penstock {
namespace {

double cpu_ms(const StepCosts& times) { return times.ranks * (times.update_cpu_ms + times.load_cpu_ms); }

/// The part of the training thread's step that needs a processor.
double processor_ms(const StepCosts& times) { return std::min(times.update_ms, times.update_cpu_ms); }

/// The time that a single reader would wait. Readers that wait at the same time also wait for each other, if they are
/// more than the storage serves at once (its gain). A reader waits less by the time that it works while the storage
/// reads ahead for it, but at most by half.
double storage_alone_ms(const StepCosts& times) {
  const double served = std::max(1.0, times.storage_gain);
  if (times.storage_readers <= served) return times.storage_ms;
  const double busy_ms = times.storage_ms * served / times.storage_readers;
  return std::max(busy_ms - times.load_cpu_ms, busy_ms / 2);
}

/// What comes ahead fills the link where the delays are short, and otherwise its requests wait side by side.
double link_least_ms(const StepCosts& times) {
  return std::max(times.link_busy_ms, times.link_delays_ms + times.link_busy_ms / times.link_requests);
}

/// The storage and the link work side by side: the one brings what the other has put there.
double storage_least_ms(const StepCosts& times) {
  return std::max(times.ranks * times.storage_busy_ms, link_least_ms(times));
}

/// The training thread's step, delayed by workers. While w workers and the t threads of the step share c cores, each
/// gets c / (w + t) of a core. This lasts until the workers have used `load_cpu`. The processor time that the training
/// thread misses meanwhile is added to its step, in proportion to the part of the step that needs a processor: threads
/// that compute together wait for the slowest of them. CIFAR-10 with an MLP on two cores: 1.51 ms per step with 1
/// worker, 1.73 ms with 2.
double crowded_update_ms(const StepCosts& times, int workers) {
  const double cores = static_cast<double>(times.cores) / times.ranks;
  const double crowding = std::max(0.0, workers + times.update_threads - cores) / (workers * cores);
  const double processor_share = times.update_ms > 0 ? processor_ms(times) / times.update_ms : 0;
  return times.update_ms + processor_share * times.load_cpu_ms * crowding;
}

/// The step if every thread that wants a core gets `share` of one.
double stretched_step_ms(const StepCosts& times, int workers, double share) {
  const double update = times.update_ms + processor_ms(times) * (1 / share - 1);
  const double storage = storage_alone_ms(times);
  const double load = times.load_ms - times.storage_ms + storage + times.load_cpu_ms * (1 / share - 1);
  if (workers > 0) return std::max({update, load / workers, storage_least_ms(times)});
  const double turns = times.is_async ? std::max(update, load + times.update_cpu_ms / share) : update + load;
  return std::max(turns, storage_least_ms(times));
}

/// The share of a core with which this run's threads, those of them that only spin, and those of other programs, all
/// with the same share, use all cores. It is found by bisection, because the run's threads want a core for a larger
/// part of the step as the share falls.
double even_share(const StepCosts& times, int workers) {
  const double others = times.other_threads + times.spinning_threads;
  double low = 0.01, high = 1;
  for (int i = 0; i < 40; ++i) {
    const double share = (low + high) / 2;
    const double own_threads = cpu_ms(times) / (share * stretched_step_ms(times, workers, share));
    (times.cores >= share * (own_threads + others) ? low : high) = share;
  }
  return low;
}

}  // namespace

double predicted_step_ms(const StepCosts& times, int workers) {
  double step = std::max(stretched_step_ms(times, workers, 1), cpu_ms(times) / times.cores);
  if (workers > 0 && times.crowding != CorePolicy::kYield) step = std::max(step, crowded_update_ms(times, workers));
  const double wanted = times.ranks * (workers + times.update_threads);
  if (times.crowding == CorePolicy::kKeep && workers > 0 && wanted > times.cores)
    step = std::max(step, stretched_step_ms(times, workers, times.cores / wanted));
  if (times.other_threads + times.spinning_threads <= 0 || step <= 0) return step;
  return std::max(step, stretched_step_ms(times, workers, even_share(times, workers)));
}

Resource slowest(const StepCosts& times, int workers) {
  const Resource update = times.communication_ms > times.update_ms / 2 ? Resource::kCommunication : Resource::kCompute;
  const double storage_ms = storage_alone_ms(times), load_ms = times.load_ms - times.storage_ms + storage_ms;
  const bool is_link_busier = link_least_ms(times) > times.ranks * times.storage_busy_ms;
  const Resource shared = is_link_busier ? Resource::kLink : Resource::kStorage;
  const Resource load = times.link_ms > load_ms / 2 ? Resource::kLink
                        : storage_ms > load_ms / 2  ? Resource::kStorage
                                                    : Resource::kLoad;
  const double cores = cpu_ms(times) / times.cores;
  if (workers == 0 && cores > load_ms + times.update_ms) return Resource::kCores;
  const double storage = storage_least_ms(times);
  if (workers == 0 && is_link_busier && storage > load_ms + times.update_ms) return Resource::kLink;
  if (workers == 0) return load_ms > times.update_ms ? load : update;
  const double loads = load_ms / workers;
  if (times.update_ms >= std::max({loads, storage, cores})) return update;
  if (storage >= std::max(loads, cores)) return shared;
  return loads >= cores ? load : Resource::kCores;
}

void settle_storage(LoopMeasurement& run, double one, double most) {
  // Between two direct reads of one reader the storage is idle, where otherwise the kernel would read ahead. So a small
  // difference is no gain.
  constexpr double kServesMore = 1.25;
  constexpr double kCountedShare = 0.5;  // of what a reader's waiting tells at least; less means that bytes are missing
  StepCosts& times = run.times;
  const bool is_measured = one > 0 && most > 0;
  run.disk_bytes_per_second = is_measured ? most : 0;
  times.storage_gain = is_measured && most >= kServesMore * one ? most / one : 1;
  const double alone = storage_alone_ms(times), step = std::max(alone, run.step_ms / times.ranks);
  const double least = alone / times.storage_gain;
  // A network or FUSE file system counts no bytes, but the program's own pages do: a few kilobytes then stand beside
  // hundreds of milliseconds of waiting.
  const double by_bytes = is_measured ? std::min(step, run.storage_bytes * 1e3 / most) : 0;
  if (run.storage_bytes > 0 && by_bytes >= kCountedShare * least) {
    times.storage_busy_ms = times.storage_busy_low_ms = times.storage_busy_high_ms = by_bytes;
    return;
  }
  const double share = step > 0 ? alone / step : 0;
  times.storage_busy_ms = (alone + (step - alone) * share) / times.storage_gain;
  times.storage_busy_low_ms = is_measured ? least : 0;
  times.storage_busy_high_ms = step / times.storage_gain;
}

StepCosts with_link(StepCosts times, double rate_factor, double bytes_factor) {
  const double before_ms = times.link_ms;
  times.link_busy_ms *= bytes_factor / rate_factor;
  times.link_ms = bytes_factor * ((times.link_ms - times.link_latency_ms) / rate_factor + times.link_latency_ms);
  times.link_latency_ms *= bytes_factor;
  times.link_delays_ms *= bytes_factor;
  times.load_ms += times.link_ms - before_ms;
  return times;
}

StepCosts with_requests(StepCosts times, double factor) {
  const double change_ms = (factor - 1) * times.link_latency_ms;
  times.link_latency_ms += change_ms;
  times.link_ms += change_ms;
  times.load_ms += change_ms;
  times.link_delays_ms *= factor;
  return times;
}

double other_threads(double busy_cores, double own_cores, double queued_cores) {
  const double others = busy_cores - own_cores;
  if (others < kLeastOtherCores) return 0;
  return own_cores > 0 ? others * (1 + queued_cores / own_cores) : others;
}

double other_cores(const LoopMeasurement& run) {
  if (run.times.other_threads <= 0 || run.step_ms <= 0) return 0;
  return std::max(0.0, run.busy_cores - (cpu_ms(run.times) + run.times.ranks * run.times.spun_ms) / run.step_ms);
}

}  // namespace penstock
