// Rank schedules: the operations of all ranks of a pipeline, with the forwards that are run again.
//
// Lives here: what a pipeline needs: where the model is cut, what its stages cost, the messages between ranks,
// backward in two halves, forwards that are run again; and when tasks that wait for each other begin and end.
// Not here: the schedules themselves (schedules), and what runs their operations (engine/schedule_runner.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/parallel/strategy/step_plan.h"

namespace penstock::detail {

/// The operations of a step's ranks, of one copy of the model, and where its stages are. Throws config_error naming the
/// mode's key for an unknown schedule.
PlacedSchedules placed_schedules(const StepPlan& plan);

/// Those of a registered schedule, with one entry per rank. Throws as placed_schedules().
std::vector<Schedule> schedules_of(const SchedulePlan& plan);

/// Where such a schedule has the parts of the model. Throws as placed_schedules().
Placement placement_of(const SchedulePlan& plan);

/// Calls `add` for the operations of all ranks, each rank's in its order, in such an order of them all that each comes
/// after what it needs. `add` returns false, and is called again later, if what the operation needs has not been added.
/// Throws bug_error for an operation whose needs never are.
void add_operations(const std::vector<Schedule>& ranks, const std::function<bool(size_t rank, size_t place)>& add);

/// What the micro-batches of the plan must be a multiple of; 0: their number is fixed.
int micro_batch_step(const StepPlan& plan);

/// The traits of the schedule of this name, which is no file. Throws as placed_schedules().
const ScheduleTraits& schedule_traits(const std::string& name);

/// The value of the key `recompute`: never, except-last or always. Throws config_error for another text.
Recompute recompute_named(const std::string& text);

/// F0 B0 F1 B1 ...: for a rank that holds the whole model. One activation is alive at a time.
Schedule accumulation(int micro_batches);

/// The most micro-batches, of all chunks together, whose intermediate activations a rank keeps at once: from the
/// forward that keeps them, or that is run again, to the end of backward.
int most_alive(const Schedule& schedule);

/// One entry per part: its share of the micro-batches that are alive at its rank, rounded up.
std::vector<int> alive_of_parts(const PlacedSchedules& schedules);

}  // namespace penstock::detail
