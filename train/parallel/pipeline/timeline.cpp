// Timeline: simulation.
#include "train/parallel/pipeline/timeline.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

using enum Operation::Kind;

int64_t cost_of(const Operation& operation) {
  return (operation.kind == kBackward ? 2 : 1) + (operation.kind != kForward && operation.recomputes ? 1 : 0);
}

std::string text_of(const Operation& operation) {
  return concat(operation.kind == kForward          ? "F"
                : operation.kind == kWeightGradient ? "W"
                                                    : "B",
                operation.micro_batch, ".", operation.chunk);
}

class Simulation {
 public:
  Simulation(const std::vector<Schedule>& schedules, const Placement& placement)
      : schedules_(schedules), placement_(placement), next_(schedules.size(), 0) {
    for (const auto& schedule : schedules)
      for (const auto& operation : schedule) micro_batches_ = std::max(micro_batches_, operation.micro_batch + 1);
    const auto count = static_cast<size_t>(micro_batches_) * static_cast<size_t>(placement.part_count());
    for (auto* ends : {&forward_, &backward_}) ends->assign(count, kNotYet);
    timeline_.ranks.resize(schedules.size());
  }

  Timeline run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t rank = 0; rank < schedules_.size(); ++rank)
        while (advance(rank)) moves = true;
    }
    for (size_t rank = 0; rank < schedules_.size(); ++rank)
      if (next_[rank] < schedules_[rank].size())
        throw bug_error(
            concat("schedule: rank ", rank, " waits for ever before ", text_of(schedules_[rank][next_[rank]])));
    return std::move(timeline_);
  }

 private:
  static constexpr int64_t kNotYet = -1;

  /// Does the next operation of a rank, if it can begin.
  bool advance(size_t rank) {
    if (next_[rank] == schedules_[rank].size()) return false;
    const Operation& operation = schedules_[rank][next_[rank]];
    const int part = placement_.part_of(static_cast<int>(rank), operation.chunk);
    const int64_t there = ready_at(operation, part);
    if (there == kNotYet) return false;
    auto& done = timeline_.ranks[rank];
    const int64_t cost = cost_of(operation);
    // What is needed is needed after the forward that is run again.
    const int64_t early = operation.kind != kForward && operation.recomputes ? 1 : 0;
    const int64_t begin = std::max(done.empty() ? 0 : done.back().end, there - early);
    done.push_back({operation, begin, begin + cost});
    timeline_.end = std::max(timeline_.end, begin + cost);
    if (operation.kind != kWeightGradient)
      (operation.kind == kForward ? forward_ : backward_)[index(part, operation.micro_batch)] = begin + cost;
    ++next_[rank];
    return true;
  }

  /// When what the operation needs is there; kNotYet as long as that is not known.
  int64_t ready_at(const Operation& operation, int part) const {
    const int m = operation.micro_batch, parts = placement_.part_count();
    if (operation.kind == kForward) return part == 0 ? 0 : forward_[index(part - 1, m)];
    const auto& own = operation.kind == kWeightGradient ? backward_ : forward_;
    if (own[index(part, m)] == kNotYet) return kNotYet;
    return operation.kind == kWeightGradient || part == parts - 1 ? own[index(part, m)] : backward_[index(part + 1, m)];
  }

  size_t index(int part, int micro_batch) const {
    return static_cast<size_t>(part) * static_cast<size_t>(micro_batches_) + static_cast<size_t>(micro_batch);
  }

  const std::vector<Schedule>& schedules_;
  const Placement& placement_;
  std::vector<size_t> next_;  // one entry per rank
  int micro_batches_ = 0;
  std::vector<int64_t> forward_, backward_;  // ends, by part and micro-batch
  Timeline timeline_;
};

}  // namespace

double Timeline::bubble() const {
  int64_t busy = 0;
  for (const auto& operations : ranks)
    for (const auto& [operation, begin, until] : operations) busy += until - begin;
  const int64_t all = end * static_cast<int64_t>(ranks.size());
  return all > 0 ? static_cast<double>(all - busy) / static_cast<double>(all) : 0;
}

Timeline simulate(const std::vector<Schedule>& ranks, const Placement& placement) {
  return Simulation(ranks, placement).run();
}

}  // namespace penstock::detail
