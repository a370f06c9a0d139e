// Pipeline plan: what the keys of `pipeline` and `mp` say about the schedule, by its name or from a file.
#pragma once

#include <string>

#include "core/spec.h"
#include "train/parallel/pipeline/schedule_file.h"
#include "train/parallel/strategy/mesh.h"

namespace penstock::detail {

/// The shape of a pipeline, before anything is known of the model.
struct PipelineShape {
  int ranks = 0;       // of one copy of the model; 0: any
  int parts = 0;       // of the model; 0: interleave for each rank
  int interleave = 1;  // the most parts of a rank
};

/// Throws config_error for a schedule that does not exist, and for keys that do not fit it.
PipelineShape shape_of(const Spec& spec);

/// Throws config_error for keys that do not fit the mesh.
SchedulePlan plan_of(const Spec& spec, const Mesh& mesh);

/// What the micro-batches of the schedule must be a multiple of over so many ranks; 0: their number is fixed.
int micro_batch_step(const Spec& spec, int ranks);

/// Throws config_error if a step would have more messages than there are tags; see StageLink::activation_tag().
void check_messages(const Spec& spec, const SchedulePlan& plan);

}  // namespace penstock::detail
