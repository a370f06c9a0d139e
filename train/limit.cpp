// limit: operational bounds, and their sentence.
#include "train/limit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr double kAsGood = 1.02;  // what is within 2 % of the best is as good, and takes fewer threads
// Two runs of one command differ by up to 5 % (docs/finding.md: ranges over repeats). Advice keeps that far from where
// it would turn: more workers must give 5 % more, and fewer must do with batches that take 5 % longer. Between the two
// the sentence says neither, so that noise cannot turn "1 worker would do" into "1 more worker would give 1.05x".
constexpr double kNoise = 1.05;
// Below it one hiccup of 100 ms is a third of what was measured, at LeNet's 4 ms a step.
constexpr int64_t kFewSteps = 50;
constexpr double kShared = 0.9;  // cores that are this busy are the run's own

double cores_ms(const ServiceTimes& times) {
  return times.ranks * (times.update_cpu_ms + times.load_cpu_ms) / times.cores;
}

/// While w workers and the training thread want c cores, each gets c / (w + 1) of one. The workers are at it until they
/// have used `load_cpu`, and what the training thread lacks meanwhile comes on top of its step, as far as that needs a
/// processor at all. CIFAR-10 with an MLP on two cores: 1.51 ms a step beside 1 worker, 1.73 beside 2.
double crowded_update_ms(const ServiceTimes& times, int workers) {
  const double cores = static_cast<double>(times.cores) / times.ranks;
  const double crowding = std::max(0.0, workers + 1 - cores) / (workers * cores);
  const double processor_share = times.update_ms > 0 ? std::min(1.0, times.update_cpu_ms / times.update_ms) : 0;
  return times.update_ms + processor_share * times.load_cpu_ms * crowding;
}

/// Workers beyond the cores only wait for each other.
int most_workers(const Observed& run) { return std::max({run.workers, run.times.cores, 1}); }

Bound slowest(const Observed& run) {
  const ServiceTimes& times = run.times;
  const Bound update = times.communication_ms > times.update_ms / 2 ? Bound::kCommunication : Bound::kCompute;
  if (run.workers == 0 && cores_ms(times) > times.load_ms + times.update_ms) return Bound::kCores;
  if (run.workers == 0) return times.load_ms > times.update_ms ? Bound::kLoad : update;
  const double load = times.load_ms / run.workers, cores = cores_ms(times);
  if (times.update_ms >= std::max(load, cores)) return update;
  return load >= cores ? Bound::kLoad : Bound::kCores;
}

/// The least number that comes within 2 % of the best, where that is a gain; else the least that would do, up to the
/// run's own. `now`: predicted for the run's own.
int advised_workers(const Observed& run, double now) {
  double best = now;
  for (int workers = 0; workers <= most_workers(run); ++workers)
    best = std::min(best, predicted_step_ms(run.times, workers));
  int advised = 0;
  while (predicted_step_ms(run.times, advised) > best * kAsGood) ++advised;
  if (now >= predicted_step_ms(run.times, advised) * kNoise) return advised;
  ServiceTimes slower = run.times;
  slower.load_ms *= kNoise;
  slower.load_cpu_ms *= kNoise;
  advised = 0;
  while (advised < run.workers && predicted_step_ms(slower, advised) > now * kAsGood) ++advised;
  return advised;
}

/// "2 more workers would give about 2.1x (14,300 images/s), the limit is 3.9x (compute)".
std::string advice(const Observed& run, const Limit& limit) {
  const int change = limit.best_workers - run.workers;
  const std::string ceiling =
      limit.limit >= kNoise
          ? concat(", the limit is ", factor_text(limit.limit), " (",
                   run.times.communication_ms > run.times.update_ms / 2 ? "communication" : "compute", ")")
          : std::string();
  if (change > 0) {
    return concat(count_text(change, "more worker"), " would give about ", factor_text(limit.speed_up), " (",
                  rate_text(run.images_per_second * limit.speed_up), ")", ceiling);
  }
  if (change < 0) return count_text(limit.best_workers, "worker") + " would do" + ceiling;
  return "more workers would give nothing" + ceiling;
}

/// Cores that the run wants whole and does not get are somebody else's: other programs', or cut off by a quota.
std::string cores_fact(const Observed& run) {
  const double busy = run.step_ms > 0 ? std::min(1.0, cores_ms(run.times) / run.step_ms) : 0;
  const std::string cores = count_text(run.times.cores, "core");
  if (busy >= kShared) return concat("core-bound: loader and trainer kept ", cores, " ", percent_text(busy), " busy");
  return concat("core-bound: loader and trainer want all of ", cores, " and got ", percent_text(busy),
                "; other programs had the rest");
}

std::string fact(const Observed& run, Bound bound) {
  const double wait = run.step_ms > 0 ? run.wait_ms / run.step_ms : 0;
  const double communication = run.step_ms > 0 ? run.times.communication_ms / run.step_ms : 0;
  switch (bound) {
    case Bound::kLoad:
      return concat("load-bound: the trainer waited ", percent_text(wait), " of the time");
    case Bound::kCommunication:
      return concat("communication-bound: the trainer waited ", percent_text(communication),
                    " of the time for other ranks");
    case Bound::kCores:
      return cores_fact(run);
    case Bound::kCompute:
      break;
  }
  if (run.workers == 0) return concat("compute-bound: loading took ", percent_text(wait), " of the time");
  return concat("compute-bound: the loader waited ", percent_text(run.loader_idle_share), " of the time");
}

}  // namespace

double predicted_step_ms(const ServiceTimes& times, int workers) {
  if (workers == 0) {
    const double turns = times.is_async ? std::max(times.update_ms, times.load_ms + times.update_cpu_ms)
                                        : times.update_ms + times.load_ms;
    return std::max(turns, cores_ms(times));
  }
  return std::max({crowded_update_ms(times, workers), times.load_ms / workers, cores_ms(times)});
}

Limit find_limit(const Observed& run) {
  const double now = predicted_step_ms(run.times, run.workers);
  ServiceTimes free_load = run.times;
  free_load.load_ms = free_load.load_cpu_ms = 0;
  Limit limit;
  limit.bound = slowest(run);
  limit.best_workers = advised_workers(run, now);
  if (now > 0) {
    limit.speed_up = now / predicted_step_ms(run.times, limit.best_workers);
    limit.limit = now / predicted_step_ms(free_load, 1);
  }
  limit.sentence = fact(run, limit.bound) + "; " + advice(run, limit) + (run.is_emulated ? " [emulated]" : "");
  if (run.step_count > 0 && run.step_count < kFewSteps)
    limit.sentence +=
        concat(" [of ", count_text(static_cast<uint64_t>(run.step_count), "step"), ": too few to rely on]");
  return limit;
}

std::string rate_text(double images_per_second) {
  return grouped(static_cast<uint64_t>(std::llround(images_per_second))) + " images/s";
}

const char* name_of(Bound bound) {
  switch (bound) {
    case Bound::kLoad:
      return "load";
    case Bound::kCompute:
      return "compute";
    case Bound::kCommunication:
      return "communication";
    case Bound::kCores:
      return "cores";
  }
  return "";
}

}  // namespace penstock
