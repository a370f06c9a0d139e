// Bottleneck: advice from the model of bottleneck_model.cpp, and the sentence with it.
#include "loader/bottleneck/bottleneck.h"

#include <algorithm>
#include <cmath>

#include "core/machine.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/bottleneck/disk.h"
#include "loader/bottleneck/link.h"

namespace penstock {
namespace {

// LibTorch's first step takes some 50 ms longer than the others, and a disturbance on the machine costs as much. That
// is 2.5 % of two seconds, but a third of 50 steps of LeNet.
constexpr int64_t kFewSteps = 50;
constexpr double kShort_ms = 2000;
constexpr double kShared = 0.9;  // if the run itself keeps its cores this busy, other programs are not mentioned
constexpr int kListedWorkers = 8;
constexpr double kMostLimit = 1000;  // a larger one comes from an update that took no time that could be measured
// On an idle machine 24 promises about a disk of 20 MB/s, none with a range, were wrong by up to 13 %
// (docs/reports/finding.md). A range for other programs, beside which nobody can tell the two apart, is wider by that.
constexpr double kStorageNoise = 1.13;
// Two ranks with one thread each wait for each other as the threads of one step do. On two cores such runs differed by
// up to 16 % between repeats, those of one thread by up to 10 % (docs/reports/finding.md).
constexpr double kSpinNoise = 1.16;

// Whose core the other programs take is chance too: of 72 predictions beside one busy process (docs/reports/finding.md)
// the range of what those programs may do missed the truth 20 times, all but twice by less than 8 %, and once by 22 %.
constexpr double kNeighborNoise = 1.2;

double own_cores_ms(const StepCosts& times) {
  return times.ranks * (times.update_cpu_ms + times.spun_ms + times.load_cpu_ms) / times.cores;
}

/// Whether the threads of one step, which wait for each other, share their cores with workers or other programs. How
/// long such a step takes is chance: if one thread has no core, the others spin until it does.
bool is_crowded(const StepCosts& times, int workers) {
  if (times.update_threads <= 1) return false;
  return times.other_threads > 0 || times.ranks * (workers + times.update_threads) > times.cores;
}

bool is_storage_open(const StepCosts& times) { return times.storage_busy_high_ms > times.storage_busy_low_ms; }

/// Whether workers wait for the storage in a part of their time that matters.
bool waits_for_storage(const StepCosts& times) {
  constexpr double kWorthIt = 0.05;
  return times.storage_ms > kWorthIt * times.load_ms;
}

/// The times of the run, and the same times with a storage that is busy for less or more time than was assumed.
std::vector<StepCosts> storage_cases(const StepCosts& times) {
  std::vector<StepCosts> cases{times};
  if (!is_storage_open(times)) return cases;
  for (const double busy_ms : {times.storage_busy_low_ms, times.storage_busy_high_ms}) {
    cases.push_back(times);
    cases.back().storage_busy_ms = busy_ms;
  }
  return cases;
}

/// The cases of the storage, and each of them if the other programs end, want twice as many cores, or hold up fewer or
/// more of the step's threads.
std::vector<StepCosts> other_cases(const StepCosts& times) {
  std::vector<StepCosts> cases = storage_cases(times);
  if (times.other_threads <= 0) return cases;
  if (times.update_threads > 1) {
    cases.push_back(times);
    cases.back().crowding = CorePolicy::kKeep;
  }
  for (size_t i = 0, count = cases.size(); i < count; ++i) {
    for (const double factor : {0.0, 2.0}) {
      cases.push_back(cases[i]);
      cases.back().other_threads *= factor;
      cases.back().spinning_threads *= factor;
    }
  }
  if (times.update_threads <= 1) return cases;
  // Threads that compute together wait for the one that has no core, and spin meanwhile. How often that happens beside
  // other programs is chance: the step lies between its share of the processor time and twice what it took.
  for (size_t i = 0, count = cases.size(); i < count; ++i) {
    for (const double update_ms :
         {std::min(times.update_ms, times.update_cpu_ms / times.update_threads), 2 * times.update_ms}) {
      cases.push_back(cases[i]);
      cases.back().update_ms = update_ms;
    }
  }
  return cases;
}

/// The ends of what the step of several threads can take beside workers, without other programs.
///
/// The run may have been lucky or unlucky, and so may be the one that is promised. While a thread of the step queued, a
/// worker or another rank had its core. So the step itself, with a core for every thread, took what it did, or less by
/// at most the time for which those ran. With the shorter step, the workers get all the cores that they ask for, or the
/// threads of the step keep theirs by spinning.
std::vector<StepCosts> ends_of_chance(const LoopMeasurement& run) {
  std::vector<StepCosts> ends;
  for (StepCosts times : storage_cases(run.times)) {
    const double longest = std::max(times.update_ms, run.step_ms - run.wait_ms);
    const double others =
        (run.workers > 0 ? times.ranks * times.load_cpu_ms : 0) + (times.ranks - 1) * times.update_cpu_ms;
    times.spinning_threads = 0;
    ends.push_back(times);
    ends.back().update_ms = longest;
    ends.back().update_cpu_ms = std::max(times.update_cpu_ms, longest);
    times.update_ms = std::max(times.update_ms, longest - others);
    times.crowding = CorePolicy::kKeep;
    ends.push_back(times);
    times.update_cpu_ms = std::min(times.update_cpu_ms, times.update_threads * times.update_ms);
    times.crowding = CorePolicy::kYield;
    ends.push_back(times);
  }
  return ends;
}

/// By how much the ends of a range are wider than the model's. Independent errors add up like the sides of a triangle.
double noise_of(const StepCosts& times, bool is_by_chance) {
  const double others = times.other_threads > 0 ? std::log(kNeighborNoise) : 0;
  const double storage = times.other_threads > 0 && waits_for_storage(times) ? std::log(kStorageNoise) : 0;
  const double chance = is_by_chance ? std::log(kSpinNoise) : 0;
  // std::hypot would be the only function of libpenstock that needs glibc 2.35.
  return std::exp(std::sqrt(others * others + storage * storage + chance * chance));
}

/// Widens `range` so that it holds the rates of `cases`, where `now_ms` per step is the rate of the run.
void widen(Prediction& range, const std::vector<StepCosts>& cases, double images_per_second, double now_ms) {
  for (const auto& times : cases) {
    const double step_ms = predicted_step_ms(times, range.workers);
    const double rate = step_ms > 0 ? images_per_second * now_ms / step_ms : 0;
    range.low = std::min(range.low, rate);
    range.high = std::max(range.high, rate);
  }
}

/// The rates for every number of workers up to the largest of: the run's own, the number of cores, 8. In the other
/// cases the rate with the run's own workers is relative to the measured one too, because they are compared with the
/// run as it went. The ends of chance are compared with the step that was measured, since chance is part of it.
std::vector<Prediction> predictions_of(const LoopMeasurement& run) {
  const auto cases = other_cases(run.times), ends = ends_of_chance(run);
  const double now = predicted_step_ms(run.times, run.workers);
  std::vector<Prediction> predictions;
  for (int workers = 0; workers <= std::max({run.workers, run.times.cores, kListedWorkers}); ++workers) {
    const double step = predicted_step_ms(run.times, workers);
    const double rate = step > 0 ? run.images_per_second * now / step : 0;
    Prediction prediction{workers, rate, rate, rate};
    widen(prediction, cases, run.images_per_second, now);
    const bool is_by_chance = is_crowded(run.times, run.workers) || is_crowded(run.times, workers);
    if (is_by_chance && run.times.other_threads <= 0) widen(prediction, ends, run.images_per_second, run.step_ms);
    const double noise = noise_of(run.times, is_by_chance);
    prediction.low /= noise;
    prediction.high *= noise;
    predictions.push_back(prediction);
  }
  return predictions;
}

/// The largest number of workers that is considered. More workers than cores only wait for each other, unless they wait
/// for the storage in a part of their time that is worth it.
int most_workers(const LoopMeasurement& run) {
  return std::max({run.workers, run.times.cores, waits_for_storage(run.times) ? kListedWorkers : 1});
}

/// The smallest number of workers that comes within 2 % of the best rate, if that is a gain; otherwise the smallest
/// number that is enough, up to the run's own. `now` is the step predicted for the run's own.
int advised_workers(const LoopMeasurement& run, double now) {
  double best = now;
  for (int workers = 0; workers <= most_workers(run); ++workers)
    best = std::min(best, predicted_step_ms(run.times, workers));
  int advised = 0;
  while (predicted_step_ms(run.times, advised) > best * detail::kAsGood) ++advised;
  if (now >= predicted_step_ms(run.times, advised) * detail::kNoise) return advised;
  // Fewer workers are not advised where the link limits: those that there are will be wanted once the shards are there.
  if (slowest(run.times, run.workers) == Resource::kLink) return run.workers;
  StepCosts slower = run.times;
  slower.load_ms *= detail::kNoise;
  slower.load_cpu_ms *= detail::kNoise;
  advised = 0;
  while (advised < run.workers && predicted_step_ms(slower, advised) > now * detail::kAsGood) ++advised;
  return advised;
}

/// ", 1.0x to 2.0x depending on the other programs", or "" if everything that matters is known.
std::string range_text(const LoopMeasurement& run, const Bottleneck& bottleneck) {
  const auto& own = bottleneck.predictions[static_cast<size_t>(run.workers)];
  const auto& best = bottleneck.predictions[static_cast<size_t>(bottleneck.best_workers)];
  if (own.images_per_second <= 0 || best.high < best.low * detail::kAsGood) return "";
  std::vector<std::string> causes;
  if (run.times.other_threads > 0) causes.emplace_back("the other programs");
  if (is_storage_open(run.times)) causes.emplace_back("how busy the storage is");
  if (is_crowded(run.times, run.workers) || is_crowded(run.times, bottleneck.best_workers))
    causes.emplace_back("how long the intra-op threads spin");
  return concat(", ", factor_text(best.low / own.images_per_second), " to ",
                factor_text(best.high / own.images_per_second), " depending on ", join(causes, " and "));
}

/// " or up to 2.5x depending on how busy the storage is", if it is not certain that more workers would gain nothing.
std::string hope_text(const LoopMeasurement& run, const Bottleneck& bottleneck) {
  const int most = most_workers(run);
  const bool is_by_chance = run.times.other_threads <= 0 && is_crowded(run.times, most);
  const double own = bottleneck.predictions[static_cast<size_t>(run.workers)].images_per_second;
  double best = own;
  for (int workers = run.workers + (is_by_chance ? 1 : 0); workers <= most; ++workers)
    best = std::max(best, bottleneck.predictions[static_cast<size_t>(workers)].high);
  std::vector<std::string> causes;
  if (is_storage_open(run.times)) causes.emplace_back("how busy the storage is");
  if (is_by_chance) causes.emplace_back("how long the intra-op threads spin");
  if (causes.empty() || own <= 0 || best < detail::kNoise * (is_by_chance ? kSpinNoise : 1) * own) return "";
  return concat(" or up to ", factor_text(best / own), " depending on ", join(causes, " and "));
}

/// ", half the bytes would give 1.9x": the gain from storing the data in fewer bytes, with the run's own workers.
std::string bytes_text(const LoopMeasurement& run, Resource bound) {
  if (bound == Resource::kLink) return detail::link_advice(run);
  if (bound != Resource::kStorage || run.image_bytes <= 0) return "";
  const auto gain = [&](double share) {
    StepCosts fewer = run.times;
    fewer.storage_ms *= share;
    fewer.storage_busy_ms *= share;
    fewer.load_ms -= (1 - share) * run.times.storage_ms;
    return predicted_step_ms(run.times, run.workers) / predicted_step_ms(fewer, run.workers);
  };
  const bool is_known = run.coefficient_share > 0 && run.coefficient_share < 1;
  return concat(is_known ? ", --encode coef would give " : ", half the bytes would give ",
                factor_text(gain(is_known ? run.coefficient_share : 0.5)));
}

/// "2 more workers would give about 2.1x (14,300 images/s), the limit is 3.9x (compute)".
std::string advice(const LoopMeasurement& run, const Bottleneck& bottleneck) {
  const int change = bottleneck.best_workers - run.workers;
  const std::string ceiling =
      bottleneck.limit >= detail::kNoise
          ? concat(", the limit is ", bottleneck.limit > kMostLimit ? "over 1,000x" : factor_text(bottleneck.limit),
                   " (", run.times.communication_ms > run.times.update_ms / 2 ? "communication" : "compute", ")")
          : std::string();
  const std::string bytes = bytes_text(run, bottleneck.bound);
  if (change > 0) {
    return concat(count_text(change, "more worker"), " would give about ", factor_text(bottleneck.speed_up), " (",
                  rate_text(bottleneck.predictions[static_cast<size_t>(bottleneck.best_workers)].images_per_second),
                  ")", range_text(run, bottleneck), bytes, ceiling);
  }
  const std::string condition = run.times.other_threads > 0 ? " while the other programs run" : "";
  if (change < 0)
    return concat(count_text(bottleneck.best_workers, "worker"), " would be enough", condition, bytes, ceiling);
  return concat("more workers would give nothing", hope_text(run, bottleneck), condition, bytes, ceiling);
}

/// The fact about a core-bound run. Cores that it wants and does not get are used by other programs, or withheld by a
/// quota.
std::string cores_fact(const LoopMeasurement& run) {
  const double busy = run.step_ms > 0 ? std::min(1.0, own_cores_ms(run.times) / run.step_ms) : 0;
  const std::string cores = count_text(run.times.cores, "core");
  if (busy >= kShared) return concat("core-bound: loader and trainer kept ", cores, " ", percent_text(busy), " busy");
  return concat("core-bound: loader and trainer want all of ", cores, " and got ", percent_text(busy),
                run.times.other_threads > 0 ? "" : "; other programs had the rest");
}

std::string others_fact(const LoopMeasurement& run) {
  return run.times.other_threads > 0 ? others_text(other_cores(run), run.times.cores) : std::string();
}

std::string fact(const LoopMeasurement& run, Resource bound) {
  const double wait = run.step_ms > 0 ? run.wait_ms / run.step_ms : 0;
  const double communication = run.step_ms > 0 ? run.times.communication_ms / run.step_ms : 0;
  switch (bound) {
    case Resource::kLoad:
      return concat("load-bound: the trainer waited ", percent_text(wait), " of the time");
    case Resource::kLink:
      return detail::link_fact(run);
    case Resource::kStorage:
      return "storage-bound: " + storage_text(run.disk_bytes_per_second, run.images_per_second, run.image_bytes);
    case Resource::kCommunication:
      return concat("communication-bound: the trainer waited ", percent_text(communication),
                    " of the time for other ranks");
    case Resource::kCores:
      return cores_fact(run);
    case Resource::kCompute:
    case Resource::kBubble:  // an UpdateBottleneck has said these
    case Resource::kPart:
      break;
  }
  if (run.workers == 0) return concat("compute-bound: loading took ", percent_text(wait), " of the time");
  return concat("compute-bound: the loader waited ", percent_text(run.loader_idle_share), " of the time");
}

/// " [of 49 steps: too few to rely on]".
std::string caveat(const LoopMeasurement& run) {
  if (run.step_count <= 0) return "";
  const double total_ms = run.step_ms * static_cast<double>(run.step_count);
  const std::string steps = count_text(static_cast<uint64_t>(run.step_count), "step");
  if (run.step_count < kFewSteps) return concat(" [of ", steps, ": too few to rely on]");
  if (total_ms >= kShort_ms) return "";
  return concat(" [of ", steps, " in ", seconds_text(total_ms * 1e-3), ": too short to rely on]");
}

}  // namespace

Bottleneck find_bottleneck(const LoopMeasurement& run, const std::optional<UpdateBottleneck>& update) {
  const double now = predicted_step_ms(run.times, run.workers);
  StepCosts free_load = run.times;
  free_load.load_ms = free_load.load_cpu_ms = free_load.storage_ms = free_load.storage_busy_ms = 0;
  free_load.link_ms = free_load.link_latency_ms = free_load.link_busy_ms = free_load.link_delays_ms = 0;
  Bottleneck bottleneck;
  bottleneck.predictions = predictions_of(run);
  bottleneck.link_predictions = detail::link_predictions(run);
  bottleneck.bound = slowest(run.times, run.workers);
  bottleneck.best_workers = advised_workers(run, now);
  if (now > 0) {
    bottleneck.speed_up = now / predicted_step_ms(run.times, bottleneck.best_workers);
    bottleneck.limit = now / predicted_step_ms(free_load, 1);
  }
  const bool is_update_slowest = bottleneck.bound == Resource::kCompute || bottleneck.bound == Resource::kCommunication;
  const bool is_told = is_update_slowest && update.has_value();
  if (is_told) bottleneck.bound = update->bound;
  bottleneck.sentence =
      concat(is_told ? update->fact : fact(run, bottleneck.bound), others_fact(run), "; ",
             is_told ? update->advice : advice(run, bottleneck), run.is_emulated ? " [emulated]" : "", caveat(run));
  return bottleneck;
}

std::string promise_text(const std::string& who, const std::string& what, const Prediction& promised,
                         const LoopMeasurement& run) {
  const double rate = run.images_per_second;
  const std::string range = promised.high > promised.low
                                ? concat(rate < promised.low || rate > promised.high ? ", outside" : ", within",
                                         " its range of ", rate_text(promised.low), " to ", rate_text(promised.high))
                                : std::string();
  const double error = rate > 0 ? promised.images_per_second / rate - 1 : 0;
  return concat("prediction: ", who, " said ", rate_text(promised.images_per_second), " for ", what, "; it was ",
                rate_text(rate), ": ", percent_text(std::abs(error), 1), error > 0 ? " too much" : " too little", range,
                run.is_emulated ? " [emulated]" : "");
}

std::string rate_text(double images_per_second) {
  return grouped(static_cast<uint64_t>(std::llround(images_per_second))) + " images/s";
}

const char* name_of(Resource bound) {
  switch (bound) {
    case Resource::kLoad:
      return "load";
    case Resource::kStorage:
      return "storage";
    case Resource::kLink:
      return "link";
    case Resource::kCompute:
      return "compute";
    case Resource::kCommunication:
      return "communication";
    case Resource::kCores:
      return "cores";
    case Resource::kBubble:
      return "bubble";
    case Resource::kPart:
      return "part";
  }
  return "";
}

}  // namespace penstock
