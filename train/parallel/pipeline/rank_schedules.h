// Rank schedules: the operations of all ranks of a pipeline, with the forwards that are run again.
//
// Lives here: what a pipeline needs: where the model is cut, what its stages cost, the messages between ranks,
// backward in two halves, forwards that are run again.
// Not here: the schedules themselves (schedules), and what runs their operations (engine/schedule_runner.h).
#pragma once

#include <string>
#include <vector>

#include "train/parallel/pipeline/placement.h"
#include "train/parallel/strategy/schedule.h"

namespace penstock::detail {

/// One entry per rank. Throws config_error naming the mode's key for an unknown name; of a file what
/// read_schedule_file() throws.
std::vector<Schedule> schedules_of(const SchedulePlan& plan);

/// Where the parts of the model are. Throws as schedules_of().
Placement placement_of(const SchedulePlan& plan);

/// The traits of the schedule of this name, which is no file. Throws as schedules_of().
const ScheduleTraits& schedule_traits(const std::string& name);

/// The value of the key `recompute`: never, except-last or always. Throws config_error for another text.
Recompute recompute_named(const std::string& text);

/// F0 B0 F1 B1 ...: for a rank that holds the whole model. One activation is alive at a time.
Schedule accumulation(int micro_batches);

/// The most micro-batches, of all chunks together, whose intermediate activations a rank keeps at once: from the
/// forward that keeps them, or that is run again, to the end of backward.
int most_alive(const Schedule& schedule);

}  // namespace penstock::detail
