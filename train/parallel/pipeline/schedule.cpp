// Schedules: pure functions of their arguments.
#include "train/parallel/pipeline/schedule.h"

#include <algorithm>

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

Schedule schedule_of(const SchedulePlan& plan, int rank) {
  if (plan.takes_turns) return accumulation(plan.micro_batches);
  if (plan.name == "gpipe") return gpipe(plan.micro_batches);
  if (plan.name == "1f1b") return one_forward_one_backward(rank, plan.ranks, plan.micro_batches);
  if (plan.name == "interleaved") return interleaved(rank, plan.ranks, plan.micro_batches, plan.interleave);
  if (plan.name == "zero-bubble") return zero_bubble(rank, plan.ranks, plan.micro_batches);
  throw config_error(concat("--mode pipeline: ",
                            unknown_name("schedule", plan.name, {"1f1b", "gpipe", "interleaved", "zero-bubble"})));
}

}  // namespace

std::vector<Schedule> schedules_of(const SchedulePlan& plan) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    schedules.push_back(schedule_of(plan, rank));
    mark_recomputed(schedules.back(), plan.recompute);
  }
  return schedules;
}

Recompute recompute_named(const std::string& text) {
  if (text == "never") return Recompute::kNever;
  if (text == "except-last") return Recompute::kExceptLast;
  if (text == "always") return Recompute::kAlways;
  throw config_error(concat("--mode pipeline: ", unknown_name("recompute", text, {"always", "except-last", "never"})));
}

Schedule gpipe(int micro_batches) {
  Schedule schedule;
  for (int m = 0; m < micro_batches; ++m) schedule.push_back({kForward, m});
  for (int m = micro_batches; m-- > 0;) schedule.push_back({kBackward, m});
  return schedule;
}

Schedule one_forward_one_backward(int rank, int rank_count, int micro_batches) {
  Schedule schedule;
  const int ahead = std::min(rank_count - 1 - rank, micro_batches);
  for (int m = 0; m < ahead; ++m) schedule.push_back({kForward, m});
  for (int m = 0; m < micro_batches; ++m) {
    if (m + ahead < micro_batches) schedule.push_back({kForward, m + ahead});
    schedule.push_back({kBackward, m});
  }
  return schedule;
}

Schedule accumulation(int micro_batches) {
  return one_forward_one_backward(/*rank=*/0, /*rank_count=*/1, micro_batches);
}

Schedule interleaved(int rank, int rank_count, int micro_batches, int interleave) {
  // The k-th forward of a rank, and the k-th backward: rank_count micro-batches go through a chunk, then through the
  // next one (Narayanan et al. 2021, fig. 4 bottom).
  const int count = micro_batches * interleave, round = rank_count * interleave;
  const auto micro_batch = [&](int k) { return k / round * rank_count + k % rank_count; };
  const auto chunk = [&](int k) { return k % round / rank_count; };
  const int ahead = std::min(2 * (rank_count - 1 - rank) + (interleave - 1) * rank_count, count);
  Schedule schedule;
  for (int k = 0; k < ahead; ++k) schedule.push_back({kForward, micro_batch(k), chunk(k)});
  for (int k = 0; k < count; ++k) {
    if (k + ahead < count) schedule.push_back({kForward, micro_batch(k + ahead), chunk(k + ahead)});
    schedule.push_back({kBackward, micro_batch(k), interleave - 1 - chunk(k)});
  }
  return schedule;
}

Schedule zero_bubble(int rank, int rank_count, int micro_batches) {
  Schedule schedule;
  const int ahead = std::min(rank_count - 1 - rank, micro_batches);
  for (int m = 0; m < ahead; ++m) schedule.push_back({kForward, m});
  for (int m = 0; m < micro_batches; ++m) {
    if (m + ahead < micro_batches) schedule.push_back({kForward, m + ahead});
    schedule.push_back({kInputGradient, m});
    if (m >= rank) schedule.push_back({kWeightGradient, m - rank});
  }
  for (int m = std::max(0, micro_batches - rank); m < micro_batches; ++m) schedule.push_back({kWeightGradient, m});
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

int alive_bound(const SchedulePlan& plan, int rank) {
  const int after = plan.ranks - 1 - rank;
  if (plan.name == "1f1b") return std::min(after + 1, plan.micro_batches);
  if (plan.name == "interleaved")
    return std::min(2 * after + (plan.interleave - 1) * plan.ranks + 1, plan.interleave * plan.micro_batches);
  return plan.name == "zero-bubble" ? std::min(plan.ranks, plan.micro_batches) : plan.micro_batches;
}

}  // namespace penstock::detail
