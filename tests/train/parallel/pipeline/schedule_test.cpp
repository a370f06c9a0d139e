// Schedules: their literal lists, and where a model is cut.
#include "train/parallel/strategy/schedule.h"

#include <gmock/gmock.h>

#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "tests/support/testing.h"
#include "train/nn/model.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/pipeline/timeline.h"
#include "train/parallel/plan/drawing.h"
#include "train/parallel/strategy/stage_cuts.h"

namespace penstock::detail {
namespace {

using testing::AllOf, testing::HasSubstr;

using Kind = Operation::Kind;

/// "F0 F1 B1 B0"; "F0.1" for chunk 1, if there are several; "b" and "w" are the halves of a backward.
std::string text_of(const Schedule& schedule, bool names_chunk = false) {
  std::vector<std::string> words;
  for (const auto& one : schedule)
    words.push_back(concat("FBbw"[static_cast<int>(one.kind)], one.micro_batch,
                           names_chunk ? concat(".", one.chunk) : std::string()));
  return join(words, " ");
}

/// Those of one rank, without recomputation.
Schedule operations(const std::string& name, int rank, int ranks, int micro_batches, int interleave = 1) {
  return schedules_of({.name = name,
                       .ranks = ranks,
                       .micro_batches = micro_batches,
                       .interleave = interleave})[static_cast<size_t>(rank)];
}

TEST(ScheduleTest, GPipeIsForwardsThenBackwardsInReverse) {
  EXPECT_EQ(text_of(operations("gpipe", 0, 1, 1)), "F0 B0");
  EXPECT_EQ(text_of(operations("gpipe", 0, 1, 4)), "F0 F1 F2 F3 B3 B2 B1 B0");
  EXPECT_EQ(text_of(operations("gpipe", 0, 1, 8)), "F0 F1 F2 F3 F4 F5 F6 F7 B7 B6 B5 B4 B3 B2 B1 B0");
}

TEST(ScheduleTest, OneForwardOneBackward) {
  EXPECT_EQ(text_of(operations("1f1b", 0, 2, 4)), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text_of(operations("1f1b", 1, 2, 4)), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text_of(operations("1f1b", 0, 4, 8)), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  EXPECT_EQ(text_of(operations("1f1b", 1, 4, 8)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  EXPECT_EQ(text_of(operations("1f1b", 2, 4, 8)), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  EXPECT_EQ(text_of(operations("1f1b", 3, 4, 8)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST(ScheduleTest, InterleavedTakesTurnsBetweenTheChunksOfARank) {
  const auto text = [](int rank, int ranks, int micro_batches) {
    return text_of(operations("interleaved", rank, ranks, micro_batches, 2), /*names_chunk=*/true);
  };
  EXPECT_EQ(text(0, 2, 4), "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text(1, 2, 4), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text(0, 4, 8),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 F4.1 B2.1 F5.1 B3.1 F6.1 B0.0 F7.1 "
            "B1.0 B2.0 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(text(1, 4, 8),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 B0.1 F5.0 B1.1 F6.0 B2.1 F7.0 B3.1 F4.1 B0.0 F5.1 B1.0 F6.1 "
            "B2.0 F7.1 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(text(2, 4, 8),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 B0.1 F3.1 B1.1 F4.0 B2.1 F5.0 B3.1 F6.0 B0.0 F7.0 B1.0 F4.1 B2.0 F5.1 "
            "B3.0 F6.1 B4.1 F7.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(text(3, 4, 8),
            "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0 B3.0 F4.1 "
            "B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0");
}

TEST(ScheduleTest, ZeroBubbleDelaysTheGradientsOfTheWeights) {
  EXPECT_EQ(text_of(operations("zero-bubble", 0, 2, 4)), "F0 F1 b0 w0 F2 b1 w1 F3 b2 w2 b3 w3");
  EXPECT_EQ(text_of(operations("zero-bubble", 1, 2, 4)), "F0 b0 F1 b1 w0 F2 b2 w1 F3 b3 w2 w3");
  EXPECT_EQ(text_of(operations("zero-bubble", 0, 4, 8)),
            "F0 F1 F2 F3 b0 w0 F4 b1 w1 F5 b2 w2 F6 b3 w3 F7 b4 w4 b5 w5 b6 w6 b7 w7");
  EXPECT_EQ(text_of(operations("zero-bubble", 1, 4, 8)),
            "F0 F1 F2 b0 F3 b1 w0 F4 b2 w1 F5 b3 w2 F6 b4 w3 F7 b5 w4 b6 w5 b7 w6 w7");
  EXPECT_EQ(text_of(operations("zero-bubble", 2, 4, 8)),
            "F0 F1 b0 F2 b1 F3 b2 w0 F4 b3 w1 F5 b4 w2 F6 b5 w3 F7 b6 w4 b7 w5 w6 w7");
  EXPECT_EQ(text_of(operations("zero-bubble", 3, 4, 8)),
            "F0 b0 F1 b1 F2 b2 F3 b3 w0 F4 b4 w1 F5 b5 w2 F6 b6 w3 F7 b7 w4 w5 w6 w7");
}

TEST(ScheduleTest, ZbVGoesToTheLastRankAndBack) {
  const auto text = [](int rank, int ranks, int micro_batches) {
    return text_of(operations("zb-v", rank, ranks, micro_batches, 2), /*names_chunk=*/true);
  };
  EXPECT_EQ(text(0, 2, 4),
            "F0.0 F1.0 F2.0 F0.1 b0.1 w0.1 F1.1 b1.1 w1.1 F3.0 b0.0 w0.0 F2.1 b2.1 w2.1 b1.0 w1.0 F3.1 b3.1 w3.1 b2.0 "
            "w2.0 b3.0 w3.0");
  EXPECT_EQ(text(1, 2, 4),
            "F0.0 F0.1 F1.0 F1.1 b0.1 w0.1 F2.0 b0.0 w0.0 F2.1 b1.1 w1.1 F3.0 b1.0 w1.0 F3.1 b2.1 w2.1 b2.0 b3.1 b3.0 "
            "w2.0 w3.1 w3.0");
  EXPECT_EQ(text(0, 4, 8),
            "F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F0.1 b0.1 w0.1 F1.1 b1.1 w1.1 F2.1 b2.1 w2.1 F3.1 b3.1 w3.1 F7.0 b0.0 "
            "w0.0 F4.1 b4.1 w4.1 b1.0 w1.0 F5.1 b5.1 w5.1 b2.0 w2.0 F6.1 b6.1 w6.1 b3.0 w3.0 F7.1 b7.1 w7.1 b4.0 w4.0 "
            "b5.0 w5.0 b6.0 w6.0 b7.0 w7.0");
  EXPECT_EQ(text(1, 4, 8),
            "F0.0 F1.0 F2.0 F3.0 F4.0 F0.1 F5.0 F1.1 b0.1 w0.1 F2.1 b1.1 w1.1 F3.1 b2.1 w2.1 F6.0 b0.0 w0.0 F4.1 b3.1 "
            "w3.1 F7.0 b1.0 w1.0 F5.1 b4.1 w4.1 b2.0 w2.0 F6.1 b5.1 w5.1 b3.0 w3.0 F7.1 b6.1 w6.1 b4.0 b7.1 b5.0 w4.0 "
            "b6.0 w5.0 b7.0 w6.0 w7.1 w7.0");
  EXPECT_EQ(text(2, 4, 8),
            "F0.0 F1.0 F2.0 F0.1 F3.0 F1.1 F4.0 F2.1 b0.1 w0.1 F3.1 b1.1 w1.1 F5.0 b0.0 w0.0 F4.1 b2.1 w2.1 F6.0 b1.0 "
            "w1.0 F5.1 b3.1 w3.1 F7.0 b2.0 w2.0 F6.1 b4.1 w4.1 b3.0 w3.0 F7.1 b5.1 w5.1 b4.0 b6.1 b5.0 b7.1 b6.0 w4.0 "
            "b7.0 w5.0 w6.1 w7.1 w6.0 w7.0");
  EXPECT_EQ(text(3, 4, 8),
            "F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 F3.0 F3.1 b0.1 w0.1 F4.0 b0.0 w0.0 F4.1 b1.1 w1.1 F5.0 b1.0 w1.0 F5.1 b2.1 "
            "w2.1 F6.0 b2.0 w2.0 F6.1 b3.1 w3.1 F7.0 b3.0 w3.0 F7.1 b4.1 w4.1 b4.0 b5.1 b5.0 b6.1 b6.0 b7.1 b7.0 w4.0 "
            "w5.1 w6.1 w7.1 w5.0 w6.0 w7.0");
  EXPECT_EQ(text(1, 2, 1), "F0.0 F0.1 b0.1 w0.1 b0.0 w0.0");
}

TEST(ScheduleTest, DualPipeVTakesTurnsBetweenForwardsAndBackwards) {
  const auto text = [](int rank, int ranks, int micro_batches) {
    return text_of(operations("dualpipe-v", rank, ranks, micro_batches, 2), /*names_chunk=*/true);
  };
  EXPECT_EQ(text(0, 2, 4),
            "F0.0 F1.0 F2.0 F0.1 b0.1 w0.1 F1.1 F3.0 B1.1 F2.1 B0.0 B2.1 F3.1 B1.0 B3.1 b2.0 w2.0 b3.0 w3.0");
  EXPECT_EQ(text(1, 2, 4), "F0.0 F0.1 F1.0 F1.1 F2.0 B0.1 F2.1 B0.0 F3.0 B1.1 F3.1 B1.0 B2.1 B2.0 b3.1 b3.0 w3.1 w3.0");
  EXPECT_EQ(text(0, 4, 8),
            "F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F0.1 b0.1 w0.1 F1.1 b1.1 w1.1 F2.1 b2.1 w2.1 F3.1 F7.0 B3.1 F4.1 B0.0 "
            "B4.1 F5.1 B1.0 B5.1 F6.1 B2.0 B6.1 F7.1 B3.0 B7.1 b4.0 w4.0 b5.0 w5.0 b6.0 w6.0 b7.0 w7.0");
  EXPECT_EQ(text(1, 4, 8),
            "F0.0 F1.0 F2.0 F3.0 F4.0 F0.1 F5.0 F1.1 b0.1 w0.1 F2.1 b1.1 w1.1 F3.1 F6.0 B2.1 F4.1 B0.0 F7.0 B3.1 F5.1 "
            "B1.0 B4.1 F6.1 B2.0 B5.1 F7.1 B3.0 B6.1 B4.0 b7.1 b5.0 w7.1 b6.0 w5.0 b7.0 w6.0 w7.0");
  EXPECT_EQ(text(2, 4, 8),
            "F0.0 F1.0 F2.0 F0.1 F3.0 F1.1 F4.0 F2.1 b0.1 w0.1 F3.1 F5.0 B1.1 F4.1 B0.0 F6.0 B2.1 F5.1 B1.0 F7.0 B3.1 "
            "F6.1 B2.0 B4.1 F7.1 B3.0 B5.1 B4.0 B6.1 b5.0 b7.1 b6.0 w5.0 b7.0 w7.1 w6.0 w7.0");
  EXPECT_EQ(text(3, 4, 8),
            "F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 F3.0 F3.1 F4.0 B0.1 F4.1 B0.0 F5.0 B1.1 F5.1 B1.0 F6.0 B2.1 F6.1 B2.0 F7.0 "
            "B3.1 F7.1 B3.0 B4.1 B4.0 B5.1 B5.0 b6.1 b6.0 b7.1 b7.0 w6.1 w6.0 w7.1 w7.0");
}

TEST(ScheduleTest, AccumulationKeepsOneMicroBatchAlive) {
  EXPECT_EQ(text_of(accumulation(1)), "F0 B0");
  EXPECT_EQ(text_of(accumulation(3)), "F0 B0 F1 B1 F2 B2");
}

TEST(ScheduleTest, UnknownNamesListTheKnownOnes) {
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { schedules_of({.name = "1b1f"}); }),
              AllOf(HasSubstr("--mode pipeline: unknown schedule \"1b1f\""), HasSubstr("gpipe, interleaved")));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { recompute_named("alway"); }),
              AllOf(HasSubstr("unknown recompute \"alway\""), HasSubstr("\"always\"")));
}

/// The micro-batches whose forward keeps its input alone, and those whose backward runs it again.
std::pair<std::string, std::string> recomputed(const Schedule& schedule) {
  std::string forwards, again;
  for (const auto& one : schedule)
    if (one.recomputes) (one.kind == Kind::kForward ? forwards : again) += std::to_string(one.micro_batch);
  return {forwards, again};
}

TEST(ScheduleTest, ExceptLastKeepsWhatItsBackwardFollowsAtOnce) {
  const auto of = [](const std::string& name, Recompute recompute) {
    return schedules_of({.name = name, .ranks = 2, .micro_batches = 3, .recompute = recompute});
  };
  using Both = std::pair<std::string, std::string>;
  EXPECT_EQ(recomputed(of("gpipe", Recompute::kNever)[0]), Both("", ""));
  EXPECT_EQ(recomputed(of("gpipe", Recompute::kAlways)[0]), Both("012", "210"));
  for (const int rank : {0, 1}) EXPECT_EQ(recomputed(of("gpipe", Recompute::kExceptLast)[rank]), Both("01", "10"));
  EXPECT_EQ(recomputed(of("1f1b", Recompute::kExceptLast)[0]), Both("012", "012"));
  EXPECT_EQ(recomputed(of("1f1b", Recompute::kExceptLast)[1]), Both("", ""));
  EXPECT_EQ(recomputed(of("zero-bubble", Recompute::kAlways)[1]), Both("012", "012"));
}

/// With recomputation a graph lives from one backward to its end alone.
TEST(ScheduleTest, RecomputationLeavesOneGraphAlive) {
  for (const std::string& name : ScheduleRegistry::names())
    for (const auto recompute : {Recompute::kExceptLast, Recompute::kAlways}) {
      const auto schedules = schedules_of({.name = name,
                                           .ranks = 4,
                                           .micro_batches = 8,
                                           .interleave = schedule_traits(name).chunks,
                                           .recompute = recompute});
      for (int rank = 0; rank < 4; ++rank) {  // those of halves stay until the delayed second half
        const int most = !schedule_traits(name).splits_backward ? 1 : name == "zb-v" ? 2 * rank + 1 : rank + 1;
        EXPECT_EQ(most_alive(schedules[static_cast<size_t>(rank)]), most) << name;
      }
    }
}

TEST(TimelineTest, RanksThatWaitForEachOtherAreABug) {
  const Schedule backward_first{{Kind::kBackward, 0}, {Kind::kForward, 0}};
  EXPECT_THAT(message_of(ErrorKind::kBug, [&] { simulate({backward_first}, Placement::loop(1, 1)); }),
              HasSubstr("rank 0 waits for ever before B0.0"));
  const Schedule turns{{Kind::kForward, 0}, {Kind::kBackward, 0}, {Kind::kForward, 1}, {Kind::kBackward, 1}};
  EXPECT_THAT(message_of(ErrorKind::kBug,
                         [&] {
                           simulate({turns, operations("gpipe", 0, 1, 2)}, Placement::loop(2, 1));
                         }),
              HasSubstr("rank 0 waits for ever before B0.0"));
}

std::string drawing(const SchedulePlan& schedule) { return drawing_of(StepPlan{.schedule = schedule}); }

TEST(TimelineTest, ADrawingHasARowPerRankAndWhatItMeans) {
  EXPECT_EQ(drawing({.name = "1f1b", .ranks = 3, .micro_batches = 4}),
            "1f1b of 4 micro-batches over 3 ranks\n"
            "F: forward, B: backward; F takes 1, B 2; = goes on with it; a dot is a time in which a rank waits\n"
            "rank 0  F0 F1 F2 .  .  .  .  B0 =  F3 B1 =  .  B2 =  .  B3 =\n"
            "rank 1  .  F0 F1 .  .  B0 =  F2 B1 =  F3 B2 =  .  B3 =  .  .\n"
            "rank 2  .  .  F0 B0 =  F1 B1 =  F2 B2 =  F3 B3 =  .  .  .  .\n"
            "bubble 33.3 % of the time; most alive activations per rank: 3, 2, 1\n");
  EXPECT_EQ(drawing({.name = "zero-bubble", .ranks = 3, .micro_batches = 4}),
            "zero-bubble of 4 micro-batches over 3 ranks\n"
            "F: forward, B: gradient of the input, W: of the weights; each takes 1; a dot is a time in which a rank "
            "waits\n"
            "rank 0  F0 F1 F2 .  .  B0 W0 F3 B1 W1 B2 W2 B3 W3\n"
            "rank 1  .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 B3 W2 W3\n"
            "rank 2  .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3\n"
            "bubble 14.3 % of the time; most alive activations per rank: 3, 3, 3\n");
  EXPECT_EQ(drawing({.name = "interleaved", .ranks = 2, .micro_batches = 2, .interleave = 2}),
            "interleaved of 2 micro-batches over 2 ranks\n"
            "F0.1: forward of micro-batch 0 in the rank's second model chunk, B: backward; F takes 1, B 2; = goes on "
            "with it; "
            "a dot is a time in "
            "which a rank waits\n"
            "rank 0  F0.0 F1.0 F0.1 F1.1 .    .    B0.1 =    .    B1.1 =    B0.0 =    B1.0 =\n"
            "rank 1  .    F0.0 F1.0 F0.1 B0.1 =    F1.1 B1.1 =    B0.0 =    B1.0 =    .    .\n"
            "bubble 20.0 % of the time; most alive activations per rank: 4, 3, each of 1/2 of the rank's blocks\n");
}

/// Both ranks run F0 again while they wait for nothing: rank 1 at 2, rank 0 at 4, before the gradient comes at 5.
TEST(TimelineTest, AForwardIsRunAgainBeforeTheGradientComes) {
  const auto text = drawing({.name = "gpipe", .ranks = 2, .micro_batches = 1, .recompute = Recompute::kAlways});
  EXPECT_THAT(text, HasSubstr("rank 0  F0 .  .  .  B0 =  =\nrank 1  .  F0 B0 =  =  .  .\n"));
  EXPECT_THAT(text, HasSubstr("and 1 more where it runs the forward again"));
}

TEST(TimelineTest, ADrawingThatNobodyCanReadIsRefused) {
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { drawing({.ranks = 2, .micro_batches = 65'536}); }),
              HasSubstr("--print-schedule: 2 ranks and 65,536 micro-batches"));
}

std::vector<std::pair<size_t, size_t>> pairs(const std::vector<BlockRange>& ranges) {
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

TEST(StageCutsTest, ABlockMayCostMoreInOnePartThanInAnother) {
  const std::vector<double> alive{3, 1};  // the first part of two keeps three micro-batches
  EXPECT_EQ(pairs(balanced(4, 2,
                           [&](size_t part, BlockRange blocks) {
                             return alive[part] * static_cast<double>(blocks.end - blocks.first);
                           })),
            (Pairs{{0, 1}, {1, 4}}));
}

std::unique_ptr<Model> resnet18() {
  return ModelRegistry::make(parse_spec("arch", "resnet18"),
                             ModelShape{.channels = 3, .height = 33, .width = 33, .classes = 5});
}

TEST(StageCutsTest, ACutNamesABlockOrTheFirstOneInside) {
  const auto blocks = facts_of(*resnet18()).blocks;  // stem, layer1.0 .. layer4.1, head
  EXPECT_EQ(pairs(cut_at(blocks, "--mode mp", {"layer2", "layer3.1", "head"})),
            (Pairs{{0, 3}, {3, 6}, {6, 9}, {9, 10}}));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { cut_at(blocks, "--mode mp", {"layer5"}); }),
              AllOf(HasSubstr("--mode mp: unknown place to cut \"layer5\""), HasSubstr("layer4.1, head")));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { cut_at(blocks, "--mode mp", {"stem"}); }), HasSubstr("\"stem\""));
  EXPECT_THAT(message_of(ErrorKind::kConfig,
                         [&] {
                           cut_at(blocks, "--mode mp", {"layer3", "layer2"});
                         }),
              HasSubstr("cut layer2 comes after layer3.0"));
}

TEST(StageCutsTest, AResNetsParametersLieMostlyInItsLastBlocks) {
  const auto parameters = part_parameters(facts_of(*resnet18()));
  EXPECT_EQ(parameters(0, {0, 1}), 3 * 64 * 49 + 2 * 64);
  EXPECT_EQ(parameters(1, {8, 9}), 2 * 512 * 512 * 9 + 4 * 512);
}

}  // namespace
}  // namespace penstock::detail
