// Schedules: what any of them must keep to.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/text.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/pipeline/timeline.h"

namespace penstock::detail {
namespace {

using Kind = Operation::Kind;

SchedulePlan random_plan(std::mt19937& random, const std::string& name) {
  const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % static_cast<unsigned>(most)); };
  SchedulePlan plan{.name = name, .ranks = up_to(8), .micro_batches = up_to(16)};
  if (schedule_traits(name).chunks > 1) {
    plan.ranks = 1 + up_to(7);
    const bool is_v = schedule_traits(name).is_v;
    plan.interleave = is_v ? 2 : 1 + up_to(3);
    plan.micro_batches = is_v ? schedule_traits(name).least_per_rank * plan.ranks + up_to(16) : plan.ranks * up_to(4);
  }
  return plan;
}

/// What train/parallel/schedules says of the activations that are alive.
int stated_alive(const SchedulePlan& plan, int rank) {
  const auto& [name, ranks, micro_batches, interleave, recompute, takes_turns] = plan;
  if (name == "gpipe") return micro_batches;
  if (name == "1f1b") return std::min(ranks - rank, micro_batches);
  if (name == "zero-bubble") return std::min(ranks, micro_batches);
  if (name == "zb-v") return std::min(2 * ranks, micro_batches + std::min(micro_batches, rank + 1));
  if (name == "dualpipe-v") return 2 * ranks + 1;
  if (name == "interleaved")
    return std::min(2 * (ranks - 1 - rank) + (interleave - 1) * ranks + 1, interleave * micro_batches);
  ADD_FAILURE() << "nothing is stated of " << name;
  return 0;
}

/// Ends of operations by kind, part of the model and micro-batch.
using Ends = std::map<std::tuple<Kind, int, int>, int64_t>;

Ends ends_of(const Timeline& timeline, const Placement& placement) {
  Ends ends;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    for (const auto& [one, begin, end] : timeline.ranks[rank]) {
      const int part = placement.part_of(static_cast<int>(rank), one.chunk);
      EXPECT_TRUE(ends.emplace(std::tuple(one.kind, part, one.micro_batch), end).second) << "twice";
    }
  return ends;
}

bool gives_input_gradient(Kind kind) { return kind == Kind::kBackward || kind == Kind::kInputGradient; }

/// What an operation of this part needs. `of_next`: the kind of backward of the next part that gives the gradient of
/// its input.
std::vector<std::tuple<Kind, int, int>> needs(Kind kind, int part, int m, int part_count, Kind of_next) {
  std::vector<std::tuple<Kind, int, int>> list;
  if (kind == Kind::kForward && part > 0) list.emplace_back(kind, part - 1, m);
  if (kind == Kind::kWeightGradient) list.emplace_back(Kind::kInputGradient, part, m);
  if (gives_input_gradient(kind)) {
    list.emplace_back(Kind::kForward, part, m);
    if (part + 1 < part_count) list.emplace_back(of_next, part + 1, m);
  }
  return list;
}

/// Which kind of backward the schedule has for each part and micro-batch.
std::map<std::pair<int, int>, Kind> backward_kinds(const std::vector<Schedule>& schedules, const Placement& placement) {
  std::map<std::pair<int, int>, Kind> kinds;
  for (size_t rank = 0; rank < schedules.size(); ++rank)
    for (const auto& one : schedules[rank])
      if (gives_input_gradient(one.kind))
        kinds[{placement.part_of(static_cast<int>(rank), one.chunk), one.micro_batch}] = one.kind;
  return kinds;
}

TEST(SchedulePropertiesTest, EveryOperationIsDoneOnceAfterWhatItNeedsAndWithinTheStatedMemoryAndBubble) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 100; ++trial)
    for (const std::string& name : ScheduleRegistry::names()) {
      const auto plan = random_plan(random, name);
      SCOPED_TRACE(concat(name, ": P ", plan.ranks, ", M ", plan.micro_batches, ", v ", plan.interleave));
      const auto schedules = schedules_of(plan);
      const auto placement = placement_of(plan);
      const auto timeline = simulate(schedules, placement);
      const auto ends = ends_of(timeline, placement);
      auto kinds = backward_kinds(schedules, placement);
      const bool is_split = schedule_traits(name).splits_backward;
      const int part_count = plan.ranks * plan.interleave;
      std::map<Kind, int> counts;
      for (const auto& [key, end] : ends) ++counts[std::get<Kind>(key)];
      EXPECT_EQ(counts[Kind::kForward], part_count * plan.micro_batches);
      EXPECT_EQ(counts[Kind::kBackward] + counts[Kind::kInputGradient], part_count * plan.micro_batches);
      EXPECT_EQ(counts[Kind::kInputGradient], counts[Kind::kWeightGradient]);
      EXPECT_EQ(counts[Kind::kInputGradient] > 0, is_split);
      for (size_t rank = 0; rank < schedules.size(); ++rank) {
        EXPECT_EQ(most_alive(schedules[rank]), stated_alive(plan, static_cast<int>(rank)));
        for (const auto& [one, begin, end] : timeline.ranks[rank]) {
          const int part = placement.part_of(static_cast<int>(rank), one.chunk);
          for (const auto& needed :
               needs(one.kind, part, one.micro_batch, part_count, kinds[{part + 1, one.micro_batch}])) {
            ASSERT_TRUE(ends.contains(needed));
            EXPECT_GE(begin, ends.at(needed));
          }
        }
      }
      const double waits = plan.ranks - 1.0, work = plan.interleave * plan.micro_batches;
      if (!is_split || plan.micro_batches >= plan.interleave * plan.ranks) {
        EXPECT_NEAR(timeline.bubble(), waits / ((is_split ? 3 : 1) * work + waits), 1e-12);
      }
    }
}

/// Ranks that run their schedules as StageLink lets them: who sends a gradient first waits until the peer asks for the
/// gradient that was sent before it, or has got it.
class StepByStep {
 public:
  explicit StepByStep(const SchedulePlan& plan)
      : placement_(placement_of(plan)), schedules_(schedules_of(plan)), kinds_(backward_kinds(schedules_, placement_)) {
    next_.resize(schedules_.size());
    sent_.resize(schedules_.size());
  }

  /// Whether all come to their end.
  bool run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t rank = 0; rank < schedules_.size(); ++rank)
        while (advance(rank)) moves = true;
    }
    for (size_t rank = 0; rank < schedules_.size(); ++rank)
      if (next_[rank] < schedules_[rank].size()) return false;
    return true;
  }

 private:
  using Key = std::tuple<Kind, int, int>;

  Key key_of(size_t rank, size_t index) const {
    const auto& one = schedules_[rank][index];
    return {one.kind, placement_.part_of(static_cast<int>(rank), one.chunk), one.micro_batch};
  }

  bool advance(size_t rank) {
    if (next_[rank] == schedules_[rank].size()) return false;
    const auto [kind, part, m] = key_of(rank, next_[rank]);
    for (const auto& needed : needs(kind, part, m, placement_.part_count(), kinds_[{part + 1, m}]))
      if (!done_.contains(needed)) return false;
    if (gives_input_gradient(kind) && part > 0 && placement_.rank_of(part - 1) != static_cast<int>(rank)) {
      if (sent_[rank] && !is_asked_for(*sent_[rank]) && !done_.contains(*sent_[rank])) return false;
      sent_[rank] = Key{kinds_[{part - 1, m}], part - 1, m};
    }
    done_.insert(key_of(rank, next_[rank]++));
    return true;
  }

  /// Whether the rank of the part that takes a gradient waits for it now.
  bool is_asked_for(const Key& taker) const {
    const auto peer = static_cast<size_t>(placement_.rank_of(std::get<1>(taker)));
    return next_[peer] < schedules_[peer].size() && key_of(peer, next_[peer]) == taker;
  }

  Placement placement_;
  std::vector<Schedule> schedules_;
  std::map<std::pair<int, int>, Kind> kinds_;
  std::vector<size_t> next_;              // one entry per rank, as of `sent_`
  std::vector<std::optional<Key>> sent_;  // what takes the gradient that was sent last
  std::set<Key> done_;
};

TEST(SchedulePropertiesTest, NoScheduleComesToAStopWhenOneGradientIsOnItsWayAtATime) {
  for (const std::string& name : ScheduleRegistry::names())
    for (int ranks = schedule_traits(name).chunks > 1 ? 2 : 1; ranks <= 6; ++ranks)
      for (int count = 1; count <= 4; ++count) {
        const auto& traits = schedule_traits(name);
        const bool is_looped = traits.chunks > 1 && !traits.is_v;
        for (const int interleave : is_looped ? std::vector{2, 3} : std::vector{traits.chunks}) {
          const SchedulePlan plan{
              .name = name,
              .ranks = ranks,
              .micro_batches = is_looped ? count * ranks : traits.least_per_rank * ranks + 3 * count,
              .interleave = interleave};
          EXPECT_TRUE(StepByStep(plan).run())
              << name << ": P " << ranks << ", M " << plan.micro_batches << ", v " << interleave;
        }
      }
}

}  // namespace
}  // namespace penstock::detail
