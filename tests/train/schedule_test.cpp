// Schedules: their literal lists, what any of them must keep to, and where a model is cut.
#include "train/strategies/schedule.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "core/error.h"
#include "tests/support/testing.h"
#include "train/models/model.h"
#include "train/strategies/stage_cuts.h"

namespace penstock::detail {
namespace {

using testing::AllOf, testing::HasSubstr;

/// "F0 F1 B1 B0".
std::string text_of(const Schedule& schedule) {
  std::string text;
  for (const auto& [kind, micro_batch] : schedule)
    text += (text.empty() ? "" : " ") + std::string(kind == Operation::Kind::kForward ? "F" : "B") +
            std::to_string(micro_batch);
  return text;
}

TEST(ScheduleTest, GPipeIsForwardsThenBackwardsInReverse) {
  EXPECT_EQ(text_of(gpipe(1)), "F0 B0");
  EXPECT_EQ(text_of(gpipe(4)), "F0 F1 F2 F3 B3 B2 B1 B0");
}

TEST(ScheduleTest, OneForwardOneBackwardOfTwoStages) {
  EXPECT_EQ(text_of(one_forward_one_backward(0, 2, 4)), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text_of(one_forward_one_backward(1, 2, 4)), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(ScheduleTest, OneForwardOneBackwardOfFourStages) {
  EXPECT_EQ(text_of(one_forward_one_backward(0, 4, 8)), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  EXPECT_EQ(text_of(one_forward_one_backward(1, 4, 8)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  EXPECT_EQ(text_of(one_forward_one_backward(2, 4, 8)), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  EXPECT_EQ(text_of(one_forward_one_backward(3, 4, 8)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST(ScheduleTest, UnknownNamesListTheKnownOnes) {
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { schedule_named("1b1f", 0, 2, 4); }),
              AllOf(HasSubstr("--mode pipeline: unknown schedule \"1b1f\""), HasSubstr("gpipe")));
}

/// Runs the lists of all stages as their ranks would: an operation waits for what it needs. Gives what was done, in
/// order; less than everything when they wait for each other for ever.
std::vector<std::tuple<int, Operation>> run(const std::vector<Schedule>& stages) {
  const int last = static_cast<int>(stages.size()) - 1;
  std::set<std::pair<int, int>> forwards, backwards;  // stage, micro-batch
  std::vector<size_t> next(stages.size(), 0);
  std::vector<std::tuple<int, Operation>> done;
  for (bool moves = true; moves;) {
    moves = false;
    for (int stage = 0; stage <= last; ++stage) {
      auto& at = next[static_cast<size_t>(stage)];
      const auto& schedule = stages[static_cast<size_t>(stage)];
      if (at == schedule.size()) continue;
      const auto [kind, m] = schedule[at];
      const bool is_forward = kind == Operation::Kind::kForward;
      const bool is_ready =
          is_forward ? stage == 0 || forwards.contains({stage - 1, m})
                     : forwards.contains({stage, m}) && (stage == last || backwards.contains({stage + 1, m}));
      if (!is_ready) continue;
      (is_forward ? forwards : backwards).insert({stage, m});
      done.emplace_back(stage, schedule[at++]);
      moves = true;
    }
  }
  return done;
}

TEST(ScheduleTest, EveryOperationIsDoneOnceAndNoStageKeepsMoreAliveThanItMay) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int stage_count = 1 + static_cast<int>(random() % 8), micro_batches = 1 + static_cast<int>(random() % 16);
    for (const std::string name : {"gpipe", "1f1b"}) {
      std::vector<Schedule> stages;
      for (int stage = 0; stage < stage_count; ++stage) {
        stages.push_back(schedule_named(name, stage, stage_count, micro_batches));
        const int bound = name == "gpipe" ? micro_batches : std::min(stage_count - stage, micro_batches);
        EXPECT_EQ(most_alive(stages.back()), bound) << name << ", stage " << stage << " of " << stage_count;
      }
      const auto done = run(stages);
      EXPECT_EQ(done.size(), static_cast<size_t>(2 * stage_count * micro_batches)) << name;
    }
  }
}

std::vector<std::pair<size_t, size_t>> pairs(const std::vector<StageRange>& ranges) {
  std::vector<std::pair<size_t, size_t>> list;
  for (const auto& range : ranges) list.emplace_back(range.first, range.end);
  return list;
}

using Pairs = std::vector<std::pair<size_t, size_t>>;

Pairs balanced_weights(const std::vector<double>& weights, size_t part_count) {
  return pairs(balanced(weights.size(), part_count, part_sum(weights)));
}

TEST(StageCutsTest, BalancedPartsAreContiguousAndTheHeaviestIsAsLightAsPossible) {
  EXPECT_EQ(balanced_weights({1, 1, 1, 1}, 2), (Pairs{{0, 2}, {2, 4}}));
  EXPECT_EQ(balanced_weights({1, 2, 3, 4, 5}, 2), (Pairs{{0, 3}, {3, 5}}));
  EXPECT_EQ(balanced_weights({5, 1, 1, 1}, 3), (Pairs{{0, 1}, {1, 2}, {2, 4}}));
  EXPECT_EQ(balanced_weights({0, 0, 7}, 3), (Pairs{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(balanced_weights({3}, 1), (Pairs{{0, 1}}));
}

TEST(StageCutsTest, AStageMayCostMoreInOnePartThanInAnother) {
  const std::vector<double> alive{3, 1};  // the first part of two keeps three micro-batches
  EXPECT_EQ(pairs(balanced(4, 2,
                           [&](size_t part, StageRange stages) {
                             return alive[part] * static_cast<double>(stages.end - stages.first);
                           })),
            (Pairs{{0, 1}, {1, 4}}));
}

std::unique_ptr<Model> resnet18() {
  return ModelRegistry::make(parse_spec("arch", "resnet18"),
                             ModelShape{.channels = 3, .height = 33, .width = 33, .classes = 5});
}

TEST(StageCutsTest, ACutNamesAStageOrTheFirstOneInside) {
  const auto model = resnet18();  // stem, layer1.0 .. layer4.1, head
  EXPECT_EQ(pairs(cut_at(*model, "--mode mp", {"layer2", "layer3.1", "head"})),
            (Pairs{{0, 3}, {3, 6}, {6, 9}, {9, 10}}));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { cut_at(*model, "--mode mp", {"layer5"}); }),
              AllOf(HasSubstr("--mode mp: unknown place to cut \"layer5\""), HasSubstr("layer4.1, head")));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { cut_at(*model, "--mode mp", {"stem"}); }), HasSubstr("\"stem\""));
  EXPECT_THAT(message_of(ErrorKind::kConfig,
                         [&] {
                           cut_at(*model, "--mode mp", {"layer3", "layer2"});
                         }),
              HasSubstr("cut layer2 comes after layer3.0"));
}

TEST(StageCutsTest, AResNetsParametersLieMostlyInItsLastBlocks) {
  const auto parameters = part_parameters(*resnet18());
  EXPECT_EQ(parameters(0, {0, 1}), 3 * 64 * 49 + 2 * 64);
  EXPECT_EQ(parameters(1, {8, 9}), 2 * 512 * 512 * 9 + 4 * 512);
}

}  // namespace
}  // namespace penstock::detail
