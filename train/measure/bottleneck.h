// parallel_bottleneck: what limits ranks that wait for each other, from the steps of all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/bottleneck/bottleneck.h"
#include "train/measure/recorder.h"

namespace penstock {

/// How the ranks of a run shared its work.
struct ParallelRun {
  std::vector<StepTimes> ranks = {};  ///< The mean step of each rank, in their order; empty: not known.
  /// One entry per rank: one entry per step, as many at every rank; empty: not known.
  std::vector<std::vector<StepCollectives>> collectives = {};
  int parts = 1;  ///< Parts of the model. Rank r holds part r % parts.
  int micro_batches = 1;
  int micro_batch_step = 1;     ///< Their number must be a multiple of this; 0: it cannot be another.
  std::string balance = {};     ///< The mode's key: what parts were made alike by; empty: the default.
  bool has_cut = false;         ///< The mode says where the parts begin.
  double predicted_bubble = 0;  ///< Strategy::predicted_bubble().
  int64_t batch_size = 0;       ///< Samples per step, over all ranks.
};

/// The rate with another value of a setting: `batch-size` or `micro-batches`.
struct SettingPrediction {
  std::string setting;
  int64_t value = 0;
  double images_per_second = 0, low = 0, high = 0;
};

/// The share of the ranks' time, 0..1, that went into the bubble. Time in which a rank waited because another one
/// waited for its loader is not counted, neither in the bubble nor in the steps.
double bubble_share(const std::vector<StepTimes>& ranks);

/// A rank for which all others wait at every step.
struct SlowRank {
  int rank = 0;
  double factor = 1;       ///< A step now / a step if this rank worked as fast as the slowest of the others.
  double longer_ms = 0;    ///< The difference of the two.
  const char* cause = "";  ///< What takes most of that: "its loader".
};
/// None if no single rank makes a step at least 1.1 times as long, and for ranks that hold parts of a model, where
/// parallel_bottleneck() names the part.
///
/// All ranks meet at the sums of a step, so their steps take equally long, and the time in which a rank does not wait
/// for the sums is its own work. If the rank with the most work had as much as the next one, each step would be shorter
/// by the difference. Two ranks that are equally slow hide each other.
std::optional<SlowRank> slow_rank(const ParallelRun& run);
std::string to_text(const SlowRank& rank);  ///< "rank 3 makes every step 1.4x longer (its loader; 0.8 ms per step)"

/// The sums over ranks, in each step at the rank that came last to them; the others also wait for that rank, which is
/// no communication. Where ranks hold parts of the model, the copies of each part have sums of their own: this is the
/// mean of all parts.
struct TimedSums {
  double all_ms = 0;        ///< Per step, whether the rank waited or not.
  double hidden_share = 0;  ///< The share, 0..1, in which it did something else.
};
/// None if no collective was timed.
std::optional<TimedSums> timed_sums(const ParallelRun& run);

/// What a run with another batch size, or in a pipeline another number of micro-batches, would reach; empty if nothing
/// is known. `images_per_second` is that of the run.
///
/// Ranks that share a batch: with k times the batch the work of a step grows to k times as much, its sums stay. Sums
/// take C ms per step, H of them hidden by backward, which then hides k H; but the last one starts when backward has
/// ended, so that nothing hides it. The range is from no more hidden to k H.
///
/// Pipelines (Huang et al. 2019, sec. 2.3, for parts that differ): M micro-batches through parts that take c_p per
/// batch take max c + (sum c - max c) / M. The divisor is larger for schedules with a smaller bubble than (P - 1) / (M
/// + P - 1). What the step took beyond that, its fixed phases apart, are messages, in proportion to M + P - 1. The
/// range is from all of it to none of it in this proportion.
std::vector<SettingPrediction> setting_predictions(const ParallelRun& run, double images_per_second);

/// What the sentence at the end of a run says if ranks waited for each other for much of the time. The bound is
/// kCommunication, kBubble or kPart.
std::optional<UpdateBottleneck> parallel_bottleneck(const ParallelRun& run, double images_per_second);

/// How a run of several ranks went.
struct RunMeasurement : LoopMeasurement {
  ParallelRun parallel = {};
  bool has_loader = true;  ///< False: all pictures are on the device, and no loader made batches.
};
struct RunBottleneck : Bottleneck {
  std::vector<SettingPrediction> setting_predictions;  ///< For other values of other settings than the workers.
};
RunBottleneck find_run_bottleneck(const RunMeasurement& run);

}  // namespace penstock
