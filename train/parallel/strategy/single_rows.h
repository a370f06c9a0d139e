// Single rows: where a row goes through the model alone, and which BatchNorm then has no variance.
#pragma once

#include <cstdint>
#include <string>

#include "train/nn/shape.h"
#include "train/parallel/strategy/step_plan.h"

namespace penstock {

class Model;

/// The batches of an epoch in which some row goes through the model alone: of a rank, a replica, a micro-batch or a
/// shard. kAll: of full batches too, or of the only one.
enum class SingleRows { kNone, kShortBatch, kAll };

struct EpochRows {
  int64_t batch_size = 0;
  int64_t samples = 0;      // of an epoch, over all ranks
  bool drops_tail = false;  // --tail drop
  bool is_by_rank = false;  // --shuffle rank-local: ranks end at different batches
};

SingleRows single_rows(const StepPlan& plan, const EpochRows& epoch);

/// The layer that has one value per channel where one row of `shape` is trained on alone, which is a BatchNorm over
/// maps of one place; or, of layers without running statistics, the block that it is in. "": there is none.
///
/// Runs the model block by block on random numbers until it knows. Needs the memory of one block, where the model has
/// none, and leaves everything as it was.
std::string norm_without_variance(Model& model, const ModelShape& shape);

}  // namespace penstock
