// parallel_bottleneck: two models of a step, one for sums over ranks and one for pipelines, and advice from them.
#include "train/measure/bottleneck.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr double kMuchBubble = 0.1;  // shares of the time from which on the sentence is about them
constexpr double kMuchCommunication = 0.2;
constexpr int kAdvisedFactor = 4;  // larger batches have fewer updates per epoch: no more than four times is advised

double longest_wait(const std::vector<StepTimes>& ranks) {
  double longest = 0;
  for (const auto& rank : ranks) longest = std::max(longest, rank[Phase::kWait]);
  return longest;
}

/// The part of `phase` in which the rank waited for one that waited for its loader.
double echo(const StepTimes& rank, double longest, Phase phase) {
  return std::min(longest - rank[Phase::kWait], rank[phase]);
}

/// The collectives of a step, in milliseconds.
struct Collectives {
  double all = 0, exposed = 0, last = 0;
};

/// Those of a part's copies, which sum with each other. A sum begins when the last of them has come, which may be
/// another one in each step: what it waits for is the sum alone, and the others wait for it as well.
Collectives sums_of(const ParallelRun& run, size_t part = 0) {
  Collectives mean;
  if (part >= run.collectives.size()) return mean;
  int64_t count = 0, without = 0;  // steps; since the last one with sums
  for (size_t step = 0; step < run.collectives[part].size(); ++step) {
    StepCollectives least = run.collectives[part][step];
    for (size_t rank = part; rank < run.collectives.size(); rank += static_cast<size_t>(run.parts)) {
      const StepCollectives& one = run.collectives[rank][step];
      least = {std::min(least.exposed, one.exposed), std::min(least.all, one.all),
               std::min(least.after_backward, one.after_backward)};
    }
    // Ranks may take steps alone. But on a device the last sums of a run may not be timed everywhere.
    if (least.all <= 0) {
      ++without;
      continue;
    }
    count += std::exchange(without, 0) + 1;
    mean.exposed += least.exposed;
    mean.all += least.all;
    mean.last += least.after_backward;
  }
  if (count == 0) return {};
  for (double* sum : {&mean.exposed, &mean.all, &mean.last}) *sum /= static_cast<double>(count);
  return {std::max(mean.all, mean.exposed), mean.exposed, std::min(mean.last, mean.exposed)};
}

SettingPrediction prediction_of(const char* setting, int64_t value, double own_rate, std::vector<double> gains) {
  const auto [low, high] = std::minmax_element(gains.begin(), gains.end());
  return {setting, value, own_rate * gains[0], own_rate * *low, own_rate * *high};
}

/// `factor` times the batch.
SettingPrediction batch_prediction(const ParallelRun& run, int factor, double own_rate) {
  const StepTimes& step = run.ranks[0];
  const Collectives sums = sums_of(run);
  const double fixed = step[Phase::kOptimizer] + step[Phase::kOther];
  const double growing = std::max(0.0, step.total() - sums.exposed - fixed);
  const double left = std::max(0.0, sums.all - factor * (sums.all - sums.exposed));
  const auto gain = [&](double exposed) { return factor * step.total() / (factor * growing + fixed + exposed); };
  return prediction_of(
      "batch-size", factor * run.batch_size, own_rate,
      {gain(std::clamp(left, sums.last, sums.exposed)), gain(sums.exposed), gain(std::min(left, sums.exposed))});
}

/// The step of a pipeline in milliseconds.
struct PipelineStep {
  std::vector<double> parts;  // forward and backward of all micro-batches; one entry per part
  double fill = 0;            // micro-batch times in which a rank waits, if all parts take equally long
  double total = 0, fixed = 0, messages = 0;
  int micro_batches = 1;

  double sum() const { return std::accumulate(parts.begin(), parts.end(), 0.0); }
  double most() const { return *std::max_element(parts.begin(), parts.end()); }

  /// With `longest` as the time of the slowest part.
  double work(double longest, int count) const {
    return longest + (sum() - longest) * fill / static_cast<double>(parts.size() - 1) / count;
  }
  /// How much more messages there are with another number of micro-batches.
  double growth(int count) const { return (count + fill) / (micro_batches + fill); }
  double with(int count) const { return work(most(), count) + fixed + messages * growth(count); }
  double with_equal_parts() const {
    return total - work(most(), micro_batches) + work(sum() / static_cast<double>(parts.size()), micro_batches);
  }
};

PipelineStep pipeline_step(const ParallelRun& run) {
  PipelineStep step;
  step.micro_batches = run.micro_batches;
  step.fill = run.predicted_bubble * run.micro_batches / (1 - run.predicted_bubble);
  step.parts.resize(static_cast<size_t>(run.parts));
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const StepTimes& one = run.ranks[rank];
    step.parts[rank % step.parts.size()] += (one[Phase::kForward] + one[Phase::kBackward]) *
                                            static_cast<double>(run.parts) / static_cast<double>(run.ranks.size());
  }
  const StepTimes& first = run.ranks[0];
  step.total = first.total();
  const double rest = step.total - step.work(step.most(), step.micro_batches);
  const double fixed = step.total - first[Phase::kForward] - first[Phase::kBackward] - first[Phase::kBubble];
  step.fixed = std::min(rest, fixed);
  step.messages = rest - step.fixed;
  return step;
}

SettingPrediction micro_batch_prediction(const PipelineStep& step, int count, double own_rate) {
  const double work = step.work(step.most(), count), rest = step.fixed + step.messages;
  return prediction_of("micro-batches", count, own_rate,
                       {step.total / step.with(count), step.total / (work + rest),
                        step.total / (work + std::max(rest, 0.0) * step.growth(count) + std::min(rest, 0.0))});
}

/// Numbers of micro-batches from an eighth to eight times the run's own, that divide the rows of a copy of the model
/// and that the schedule takes.
std::vector<int> other_micro_batches(const ParallelRun& run) {
  const auto copies = static_cast<int64_t>(run.ranks.size()) / run.parts;
  const int64_t rows = run.batch_size / std::max<int64_t>(copies, 1);
  std::vector<int> counts;
  if (run.micro_batch_step == 0) return counts;
  for (const int divisor : {8, 4, 2})
    if (run.micro_batches % divisor == 0) counts.push_back(run.micro_batches / divisor);
  for (const int factor : {2, 4, 8})
    if (rows % (int64_t{run.micro_batches} * factor) == 0) counts.push_back(run.micro_batches * factor);
  std::erase_if(counts, [&](int count) { return count % run.micro_batch_step != 0; });
  return counts;
}

bool has_pipeline(const ParallelRun& run) {
  return run.parts > 1 && run.ranks.size() >= static_cast<size_t>(run.parts) && run.predicted_bubble > 0 &&
         run.ranks[0].total() > 0;
}

bool has_sums(const ParallelRun& run) {
  return run.parts == 1 && run.ranks.size() > 1 && run.batch_size > 0 && run.ranks[0].total() > 0;
}

std::string gain_text(const std::string& what, double gain, double own_rate) {
  return concat(what, " would give about ", factor_text(gain), " (", rate_text(own_rate * gain), ")");
}

std::optional<UpdateBottleneck> bottleneck_of_sums(const ParallelRun& run, double own_rate) {
  const Collectives sums = sums_of(run);
  const double total = run.ranks[0].total();
  if (sums.exposed < kMuchCommunication * total) return std::nullopt;
  UpdateBottleneck bottleneck{Resource::kCommunication, {}, {}};
  bottleneck.fact = concat("communication-bound: for ", percent_text(sums.exposed / total),
                           " of the time backward did not hide the sums over ranks");
  const auto larger = batch_prediction(run, kAdvisedFactor, own_rate);
  const double gain = own_rate > 0 ? larger.images_per_second / own_rate : 1;
  // Or more, because the work of a step grows by less than the batch where small batches do not fill the processor.
  bottleneck.advice = gain >= detail::kNoise ? gain_text(concat("-b ", larger.value), gain, own_rate) + " or more"
                                             : std::string("a larger batch would give nothing");
  if (gain >= detail::kNoise && larger.high >= larger.low * detail::kAsGood)
    bottleneck.advice += concat(", ", factor_text(larger.low / own_rate), " to ", factor_text(larger.high / own_rate),
                                " depending on how much of the sums it hides");
  // One rank has no sums, and the rows of all ranks.
  const double fixed = run.ranks[0][Phase::kOptimizer] + run.ranks[0][Phase::kOther];
  const double alone = static_cast<double>(run.ranks.size()) * (total - sums.exposed - fixed) + fixed;
  if (alone > 0 && total / alone >= detail::kNoise)
    bottleneck.advice += concat(", 1 rank would give ", factor_text(total / alone), " or more");
  return bottleneck;
}

std::optional<UpdateBottleneck> bottleneck_of_pipeline(const ParallelRun& run, double own_rate) {
  const double bubble = bubble_share(run.ranks);
  if (bubble < kMuchBubble) return std::nullopt;
  const PipelineStep step = pipeline_step(run);
  int best = run.micro_batches;
  for (const int count : other_micro_batches(run))
    if (step.with(count) * detail::kAsGood < step.with(best)) best = count;
  const double gain = step.total / step.with(best), equal_gain = step.total / step.with_equal_parts();
  std::vector<std::string> advice;
  const char* const of = run.micro_batches == 1 ? " of a pipeline" : "";  // mp has no such key
  if (gain >= detail::kNoise) advice.push_back(gain_text(concat("micro-batches=", best, of), gain, own_rate));
  const bool is_uneven = equal_gain >= detail::kNoise;
  const char* const key = run.balance == "time" ? "" : run.has_cut ? " (balance=time, no cut)" : " (balance=time)";
  if (is_uneven)
    advice.push_back(concat("stages that take equally long", key, " would give up to ", factor_text(equal_gain)));
  if (is_uneven && equal_gain > gain) std::reverse(advice.begin(), advice.end());
  UpdateBottleneck bottleneck{Resource::kCommunication, {}, {}};
  bottleneck.advice = advice.empty() ? "another number of micro-batches would give nothing" : join(advice);
  const std::string waited = concat("ranks waited ", percent_text(bubble), " of the time for their neighbours");
  if (step.messages >= kMuchCommunication * step.total) {
    bottleneck.fact = concat("communication-bound: messages took ", percent_text(step.messages / step.total),
                             " of the time; ", waited);
  } else if (is_uneven && equal_gain > gain) {
    const auto slowest = std::max_element(step.parts.begin(), step.parts.end());
    bottleneck.bound = Resource::kPart;
    bottleneck.fact = concat("stage ", slowest - step.parts.begin(), " is the slowest: it takes ",
                             percent_text(*slowest / step.sum()), " of the time of all stages, and ", waited);
  } else {
    bottleneck.bound = Resource::kBubble;
    bottleneck.fact = concat("bubble-bound: ", waited);
  }
  return bottleneck;
}

/// The pictures are on the device, where a plan makes rows of them.
UpdateBottleneck bottleneck_without_loader(const LoopMeasurement& run) {
  const double wait = run.step_ms > 0 ? run.wait_ms / run.step_ms : 0;
  const std::string advice = "no loader made batches, so workers would change nothing";
  if (wait < 0.5)  // from half on, plans take longer than the step that uses them
    return {Resource::kCompute, concat("compute-bound: waiting for plans took ", percent_text(wait), " of the time"),
            advice};
  return {Resource::kLoad, concat("load-bound: the trainer waited ", percent_text(wait), " of the time for plans"),
          advice};
}

}  // namespace

double bubble_share(const std::vector<StepTimes>& ranks) {
  double bubble = 0, time = 0;
  const double longest = longest_wait(ranks);
  for (const auto& rank : ranks) {
    const double echoed = echo(rank, longest, Phase::kBubble);
    bubble += rank[Phase::kBubble] - echoed;
    time += rank.total() - rank[Phase::kWait] - echoed;
  }
  return time > 0 ? bubble / time : 0;
}

std::optional<SlowRank> slow_rank(const ParallelRun& run) {
  constexpr double kMuchLonger = 1.1;
  if (run.parts > 1 || run.ranks.size() < 2) return std::nullopt;
  const auto work = [&](size_t rank) { return run.ranks[rank].total() - run.ranks[rank][Phase::kCommunication]; };
  std::vector<size_t> order(run.ranks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return work(a) > work(b); });
  const StepTimes &slowest = run.ranks[order[0]], &next = run.ranks[order[1]];
  const double longer = work(order[0]) - work(order[1]), shorter = slowest.total() - longer;
  if (shorter <= 0 || slowest.total() < kMuchLonger * shorter) return std::nullopt;
  const auto more = [&](Phase phase) { return slowest[phase] - next[phase]; };
  const std::pair<double, const char*> causes[]{
      {more(Phase::kWait) + more(Phase::kHostToDevice), "its loader"},
      {more(Phase::kForward) + more(Phase::kBackward), "its forward and backward"},
      {more(Phase::kOptimizer), "its update"},
      {more(Phase::kOther), "what it does between them"}};
  const auto most = std::max_element(std::begin(causes), std::end(causes));
  return SlowRank{static_cast<int>(order[0]), slowest.total() / shorter, longer, most->second};
}

std::string to_text(const SlowRank& rank) {
  return concat("rank ", rank.rank, " makes every step ", factor_text(rank.factor), " longer (", rank.cause, "; ",
                ms_text(rank.longer_ms), " per step)");
}

std::optional<TimedSums> timed_sums(const ParallelRun& run) {
  double all = 0, exposed = 0;
  for (int part = 0; part < run.parts; ++part) {
    const Collectives sums = sums_of(run, static_cast<size_t>(part));
    if (sums.all <= 0) continue;
    all += sums.all;
    exposed += sums.exposed;
  }
  if (all <= 0) return std::nullopt;
  return TimedSums{all / run.parts, 1 - exposed / all};
}

std::vector<SettingPrediction> setting_predictions(const ParallelRun& run, double images_per_second) {
  std::vector<SettingPrediction> predictions;
  if (has_sums(run))
    for (const int factor : {2, 4, 8}) predictions.push_back(batch_prediction(run, factor, images_per_second));
  if (has_pipeline(run)) {
    const PipelineStep step = pipeline_step(run);
    for (const int count : other_micro_batches(run))
      predictions.push_back(micro_batch_prediction(step, count, images_per_second));
  }
  return predictions;
}

std::optional<UpdateBottleneck> parallel_bottleneck(const ParallelRun& run, double images_per_second) {
  if (has_pipeline(run)) return bottleneck_of_pipeline(run, images_per_second);
  return has_sums(run) ? bottleneck_of_sums(run, images_per_second) : std::nullopt;
}

RunBottleneck find_run_bottleneck(const RunMeasurement& run) {
  LoopMeasurement measured = run;
  auto update = parallel_bottleneck(run.parallel, run.images_per_second);
  if (!run.has_loader) {
    StepCosts& times = measured.times;  // a wait is one for plans, which no worker makes
    times.load_ms = times.load_cpu_ms = times.storage_ms = times.storage_busy_ms = 0;
    if (!update && slowest(times, run.workers) == Resource::kCompute) update = bottleneck_without_loader(run);
  }
  return {find_bottleneck(measured, update), setting_predictions(run.parallel, run.images_per_second)};
}

}  // namespace penstock
