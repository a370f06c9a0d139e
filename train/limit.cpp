// limit: operational bounds, and their sentence.
#include "train/limit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/text.h"

namespace penstock {
namespace {

constexpr double kAsGood = 1.02;  // what is within 2 % of the best is as good, and takes fewer threads
constexpr double kWorthSaying = 1.05;

double cores_ms(const ServiceTimes& times) { return times.ranks * (times.update_cpu + times.load_cpu) / times.cores; }

/// While w workers and the training thread want c cores, each gets c / (w + 1) of one. The workers are at it until they
/// have used `load_cpu`, and what the training thread lacks meanwhile comes on top of its step, as far as that needs a
/// processor at all. CIFAR-10 with an MLP on two cores: 1.51 ms a step beside 1 worker, 1.73 beside 2.
double crowded_update_ms(const ServiceTimes& times, int workers) {
  const double cores = static_cast<double>(times.cores) / times.ranks;
  const double crowding = std::max(0.0, workers + 1 - cores) / (workers * cores);
  const double processor_share = times.update > 0 ? std::min(1.0, times.update_cpu / times.update) : 0;
  return times.update + processor_share * times.load_cpu * crowding;
}

/// Workers beyond the cores only wait for each other.
int most_workers(const Observed& run) { return std::max({run.workers, run.times.cores, 1}); }

std::string percent(double share) { return concat(std::lround(100 * share), " %"); }

std::string times_text(double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*fx", factor < 10 ? 1 : 0, factor);
  return text;
}

std::string count_text(int count, const char* noun) { return concat(count, " ", noun, count == 1 ? "" : "s"); }

Bound slowest(const Observed& run) {
  const ServiceTimes& times = run.times;
  const Bound update = times.communication > times.update / 2 ? Bound::kCommunication : Bound::kCompute;
  if (run.workers == 0 && cores_ms(times) > times.load + times.update) return Bound::kCores;
  if (run.workers == 0) return times.load > times.update ? Bound::kLoad : update;
  const double load = times.load / run.workers, cores = cores_ms(times);
  if (times.update >= std::max(load, cores)) return update;
  return load >= cores ? Bound::kLoad : Bound::kCores;
}

/// "2 more workers would give about 2.1x (14,300 images/s), the limit is 3.9x (compute)".
std::string advice(const Observed& run, const Limit& limit) {
  const int change = limit.best_workers - run.workers;
  const std::string ceiling =
      limit.limit >= kWorthSaying
          ? concat(", the limit is ", times_text(limit.limit), " (",
                   run.times.communication > run.times.update / 2 ? "communication" : "compute", ")")
          : std::string();
  if (change > 0 && limit.speed_up >= kWorthSaying) {
    return concat(count_text(change, "more worker"), " would give about ", times_text(limit.speed_up), " (",
                  rate_text(run.images_per_second * limit.speed_up), ")", ceiling);
  }
  if (change < 0) return count_text(limit.best_workers, "worker") + " would do" + ceiling;
  return "more workers would give nothing" + ceiling;
}

std::string fact(const Observed& run, Bound bound) {
  const double wait = run.step > 0 ? run.wait / run.step : 0;
  const double communication = run.step > 0 ? run.times.communication / run.step : 0;
  const ServiceTimes& times = run.times;
  switch (bound) {
    case Bound::kLoad:
      return concat("load-bound: the trainer waited ", percent(wait), " of the time");
    case Bound::kCommunication:
      return concat("communication-bound: the trainer waited ", percent(communication), " of the time for other ranks");
    case Bound::kCores: {
      const double busy = run.step > 0 ? std::min(1.0, cores_ms(times) / run.step) : 0;
      return concat("core-bound: loader and trainer kept ", count_text(times.cores, "core"), " ", percent(busy),
                    " busy");
    }
    case Bound::kCompute:
      break;
  }
  if (run.workers == 0) return concat("compute-bound: loading took ", percent(wait), " of the time");
  return concat("compute-bound: the loader waited ", percent(run.loader_idle), " of the time");
}

}  // namespace

double predicted_step_ms(const ServiceTimes& times, int workers) {
  if (workers == 0) {
    const double turns =
        times.is_async ? std::max(times.update, times.load + times.update_cpu) : times.update + times.load;
    return std::max(turns, cores_ms(times));
  }
  return std::max({crowded_update_ms(times, workers), times.load / workers, cores_ms(times)});
}

Limit find_limit(const Observed& run) {
  const double now = predicted_step_ms(run.times, run.workers);
  double best = now;
  for (int workers = 0; workers <= most_workers(run); ++workers)
    best = std::min(best, predicted_step_ms(run.times, workers));
  Limit limit;
  while (predicted_step_ms(run.times, limit.best_workers) > best * kAsGood) ++limit.best_workers;
  ServiceTimes free_load = run.times;
  free_load.load = free_load.load_cpu = 0;
  limit.bound = slowest(run);
  if (now > 0 && best > 0) {
    limit.speed_up = now / predicted_step_ms(run.times, limit.best_workers);
    limit.limit = now / predicted_step_ms(free_load, 1);
  }
  limit.sentence = fact(run, limit.bound) + "; " + advice(run, limit) + (run.is_emulated ? " [emulated]" : "");
  return limit;
}

std::string rate_text(double images_per_second) {
  std::string text = std::to_string(std::lround(images_per_second));
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text + " images/s";
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
