// StoragePlan: which form of storing pictures is the cheapest that feeds a training, from what was measured of each.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// The images per second that `workers` workers of one machine make.
struct WorkerRate {
  int workers = 0;
  double images_per_second = 0;
};

/// One form of storing, and what it costs.
struct StorageForm {
  std::string flags;              ///< For shardprep pack: "--encode coef".
  bool has_same_pixels = true;    ///< Pictures come out as they are in the source.
  double image_bytes = 0;         ///< Stored per image.
  std::vector<WorkerRate> rates;  ///< By ascending numbers of workers, one or more.
};

struct PlanTarget {
  double images_per_second = 0;  ///< All nodes together.
  int nodes = 1;                 ///< Machines like this one, which share the target evenly.
};

/// What one form gives on all nodes together.
struct PlannedForm {
  double most = 0;  ///< Images per second with the best number of workers.
  int workers = 0;  ///< Per node: the fewest that reach the target, or the best number where none does.
  bool is_enough = false;
};

struct StoragePlan {
  std::vector<PlannedForm> forms;  ///< One per form that was given.
  /// The cheapest that is enough: of those with the same pixels that with the fewest bytes per image, otherwise the
  /// same of the others. -1: none.
  int best = -1;
  int nearest = 0;  ///< The one that gives the most.
  /// With which `nearest` is enough; 0 where more nodes are of no use, because its rate is 0 or it would
  /// take more than a million.
  int nodes_needed = 0;
};

/// Between two numbers of workers that were measured the rate is taken to grow evenly. Requires a target above 0 and
/// one form or more.
StoragePlan plan_storage(const std::vector<StorageForm>& forms, const PlanTarget& target);

/// The rate of `workers` workers, which lie within those of `rates` or beyond the last, whose rate it is then.
double rate_of(const std::vector<WorkerRate>& rates, double workers);

}  // namespace penstock
