// Rank schedules: from the registry, and which forwards keep their input alone.
#include "train/parallel/pipeline/rank_schedules.h"

#include <algorithm>
#include <utility>

#include "core/choice.h"
#include "core/error.h"
#include "core/text.h"
#include "train/parallel/pipeline/schedule_file.h"

namespace penstock::detail {
namespace {

using enum Operation::Kind;

void mark_recomputed(Schedule& schedule, Recompute recompute) {
  if (recompute == Recompute::kNever) return;
  std::vector<std::pair<int, int>> kept;  // micro-batch and chunk
  if (recompute == Recompute::kExceptLast)
    for (size_t i = 0; i + 1 < schedule.size(); ++i) {
      const auto &one = schedule[i], &next = schedule[i + 1];
      if (one.kind == kForward && next.kind != kForward && one.micro_batch == next.micro_batch &&
          one.chunk == next.chunk)
        kept.emplace_back(one.micro_batch, one.chunk);
    }
  std::sort(kept.begin(), kept.end());
  for (auto& operation : schedule)
    operation.recomputes =
        operation.kind != kWeightGradient &&
        !std::binary_search(kept.begin(), kept.end(), std::pair(operation.micro_batch, operation.chunk));
}

const ScheduleRegistry::Entry& entry_of(const std::string& name) {
  const auto& entries = ScheduleRegistry::entries();
  if (const auto found = entries.find(name); found != entries.end()) return found->second;
  throw config_error(concat("--mode pipeline: ", unknown_name("schedule", name, ScheduleRegistry::names())));
}

}  // namespace

std::vector<Schedule> schedules_of(const SchedulePlan& plan) {
  std::vector<Schedule> schedules;
  if (is_schedule_file(plan.name)) {
    schedules = read_schedule_file(plan.name).ranks;
  } else {
    const auto schedule = entry_of(plan.name).make(Spec("schedule", plan.name, {}));
    for (int rank = 0; rank < plan.ranks; ++rank)
      schedules.push_back(plan.takes_turns ? accumulation(plan.micro_batches) : schedule->operations(plan, rank));
  }
  for (auto& schedule : schedules) mark_recomputed(schedule, plan.recompute);
  return schedules;
}

Placement placement_of(const SchedulePlan& plan) {
  if (is_schedule_file(plan.name)) return read_schedule_file(plan.name).placement;
  return entry_of(plan.name).traits.is_v ? Placement::v(plan.ranks) : Placement::loop(plan.ranks, plan.interleave);
}

const ScheduleTraits& schedule_traits(const std::string& name) { return entry_of(name).traits; }

Recompute recompute_named(const std::string& text) {
  return choice<Recompute>(
      "--mode pipeline", text,
      {{"never", Recompute::kNever}, {"except-last", Recompute::kExceptLast}, {"always", Recompute::kAlways}},
      "recompute");
}

Schedule accumulation(int micro_batches) {
  Schedule schedule;
  for (int m = 0; m < micro_batches; ++m) {
    schedule.push_back({kForward, m});
    schedule.push_back({kBackward, m});
  }
  return schedule;
}

int most_alive(const Schedule& schedule) {
  int alive = 0, most = 0;
  for (const auto& operation : schedule) {
    if (operation.kind == kForward ? !operation.recomputes : operation.recomputes) most = std::max(most, ++alive);
    if (operation.kind == kBackward || operation.kind == kWeightGradient) --alive;
  }
  return most;
}

}  // namespace penstock::detail
