// Bottleneck: which resource limits a loop over a loader, and how fast it would be with other numbers of workers.
//
// Lives here: which resource limits a loop over a loader, the sentence about it, how fast other numbers of workers
// would be, and the speed of disks.
// Not here: ranks, messages and pipelines: train/measure adds them to the same arithmetic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/bottleneck/bottleneck_model.h"

namespace penstock {

/// The rate with a number of workers. If other programs used the cores, if it is not known whether the storage gives
/// more to more readers, or if a step computes with several threads and these and the workers are more than the cores
/// (in the run or with that number of workers), the rate is between `low` and `high`; otherwise both are the rate
/// itself.
struct Prediction {
  int workers = 0;
  double images_per_second = 0, low = 0, high = 0;
};

struct Bottleneck {
  Resource bound = Resource::kCompute;
  int best_workers = 0;  ///< The number advised: more if that gives 5 % or more, fewer if they are enough.
  double speed_up = 1;   ///< Predicted rate with best_workers / predicted rate with the run's own.
  double limit = 1;      ///< The same ratio if batches cost nothing.
  /// One entry per number of workers, from 0. The sentence's numbers are from here.
  std::vector<Prediction> predictions;
  std::vector<LinkPrediction> link_predictions;  ///< Factors first, then caches, both ascending; none: nothing was far.
  std::string sentence;                          ///< One line for people.
};

/// What the sentence says where somebody knows more about the update than its times.
struct UpdateBottleneck {
  Resource bound;
  std::string fact;    ///< "bubble-bound: ranks waited 38 % of the time for their neighbours"
  std::string advice;  ///< "micro-batches=8 would give about 1.2x (14,300 images/s)"
};

/// The slowest resource of the model, and the sentence at the end of a run:
///
///     load-bound: the trainer waited 71 % of the time; 2 more workers would give about 2.1x (14,300 images/s), the
///     limit is 3.9x (compute)
///
/// If the update is the slowest, the sentence is about `update`, where that is given.
Bottleneck find_bottleneck(const LoopMeasurement& run, const std::optional<UpdateBottleneck>& update = std::nullopt);

/// How far a promise was from what came: `prediction: runs/a (1 worker) said 14,300 images/s for 2 workers; it was
/// 13,900 images/s: 2.9 % too much`. `who` is "runs/a (1 worker)", `what` is "2 workers".
std::string promise_text(const std::string& who, const std::string& what, const Prediction& promised,
                         const LoopMeasurement& run);

std::string rate_text(double images_per_second);  ///< "14,300 images/s"
const char* name_of(Resource bound);              ///< load, storage, link, compute, communication, cores, bubble, part

}  // namespace penstock
