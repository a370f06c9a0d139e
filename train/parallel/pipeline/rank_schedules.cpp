// Rank schedules: from the registry, and which forwards keep their input alone.
#include "train/parallel/pipeline/rank_schedules.h"

#include <algorithm>
#include <utility>

#include "core/choice.h"
#include "core/error.h"
#include "core/text.h"

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

std::string text_of_operation(const Operation& operation) {
  const char* const kind = operation.kind == kForward ? "F" : operation.kind == kWeightGradient ? "W" : "B";
  return concat(kind, operation.micro_batch, ".", operation.chunk);
}

const ScheduleRegistry::Entry& entry_of(const std::string& name) {
  const auto& entries = ScheduleRegistry::entries();
  if (const auto found = entries.find(name); found != entries.end()) return found->second;
  throw config_error(concat("--mode pipeline: ", unknown_name("schedule", name, ScheduleRegistry::names())));
}

}  // namespace

PlacedSchedules placed_schedules(const StepPlan& plan) {
  if (!plan.operations) return {placement_of(plan.schedule), schedules_of(plan.schedule), plan.schedule.micro_batches};
  auto placed = *plan.operations;
  for (auto& schedule : placed.ranks) mark_recomputed(schedule, plan.schedule.recompute);
  return placed;
}

std::vector<Schedule> schedules_of(const SchedulePlan& plan) {
  if (plan.takes_turns || plan.name.empty())
    return std::vector<Schedule>(static_cast<size_t>(plan.ranks), accumulation(plan.micro_batches));
  const auto schedule = entry_of(plan.name).make(Spec("schedule", plan.name, {}));
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < plan.ranks; ++rank) schedules.push_back(schedule->operations(plan, rank));
  for (auto& operations : schedules) mark_recomputed(operations, plan.recompute);
  return schedules;
}

Placement placement_of(const SchedulePlan& plan) {
  if (plan.name.empty()) return Placement();
  return entry_of(plan.name).traits.is_v ? Placement::v(plan.ranks) : Placement::loop(plan.ranks, plan.interleave);
}

void add_operations(const std::vector<Schedule>& ranks, const std::function<bool(size_t rank, size_t place)>& add) {
  std::vector<size_t> next(ranks.size(), 0);
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      for (; next[rank] < ranks[rank].size() && add(rank, next[rank]); ++next[rank]) moves = true;
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (next[rank] < ranks[rank].size())
      throw bug_error(
          concat("schedule: rank ", rank, " waits for ever before ", text_of_operation(ranks[rank][next[rank]])));
}

int micro_batch_step(const StepPlan& plan) {
  if (!plan.has_stages()) return 1;
  if (plan.operations) return 0;
  const auto& schedule = plan.schedule;
  const auto& traits = schedule_traits(schedule.name);
  const int step = schedule.interleave > 1 && !traits.is_v ? schedule.ranks : 1;
  return std::max(step, traits.least_per_rank * schedule.ranks);
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

std::vector<int> alive_of_parts(const PlacedSchedules& schedules) {
  std::vector<int> alive;
  for (int part = 0; part < schedules.placement.part_count(); ++part) {
    const int rank = schedules.placement.rank_of(part);
    const int chunks = static_cast<int>(schedules.placement.parts_of(rank).size());
    alive.push_back((most_alive(schedules.ranks[static_cast<size_t>(rank)]) + chunks - 1) / chunks);
  }
  return alive;
}

}  // namespace penstock::detail
