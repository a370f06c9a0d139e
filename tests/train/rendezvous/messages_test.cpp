// Messages in a profile: whatever is sent in a step is received in it, and both ranks know that.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

/// One entry per rank: its laps of steps 2 to 4, with an evaluation after step 3, which belongs to none.
std::vector<Laps> laps_of_ranks(const std::string& mode, int world_size, Network network) {
  const auto samples = random_samples(12, kGrey, 4);
  std::vector<Laps> laps(static_cast<size_t>(world_size));
  const auto body = [&](Comm& comm) {
    StrategyHarness one(mode, make_lenet(), comm, kSgd);
    for (int64_t step = 1; step <= 4; ++step) {
      if (step == 2) one.recorder.keep_laps();
      one.strategy->step(one.part(samples, 12, 0));
      one.recorder.mark(Phase::kOther);
      one.recorder.end_step(step);
      if (step != 3) continue;
      one.recorder.restart();
      auto batch = one.part(samples, 12, 0);
      one.strategy->evaluate(batch);
      one.recorder.mark(Phase::kOther);
      one.recorder.restart();
    }
    laps[static_cast<size_t>(comm.rank())] = one.recorder.take_laps();
  };
  run_ranks(world_size, body, /*step_seconds=*/60, network);
  return laps;
}

/// Whether the end lies in a lap of its step.
bool is_in_its_step(const MessageEnd& end, const Laps& laps) {
  for (const auto& lap : laps.host)
    if (lap.begin_ns <= end.ns && end.ns <= lap.end_ns) return lap.step == end.step;
  return false;
}

TEST(MessagesTest, EachThatIsSentInAStepIsReceivedInIt) {
  struct Case {
    std::string mode;
    int world_size;
    size_t per_step;  // labels, and one activation and one gradient per cut and micro-batch
  };
  for (const auto& [mode, world_size, per_step] :
       {Case{"pipeline", 2, 1 + 2 * 4}, Case{"mp", 3, 1 + 2 * 2},
        Case{"pipeline(schedule=interleaved,data=2,micro-batches=2)", 4, 2 * (1 + 2 * 2 * 3)}})
    for (const auto network : {Network::kGloo, Network::kThreads}) {
      const auto laps = laps_of_ranks(mode, world_size, network);
      std::map<std::tuple<int64_t, int, int, int>, MessageEnd> sent, received;  // by step, ranks and tag
      for (int rank = 0; rank < world_size; ++rank)
        for (const auto& end : laps[static_cast<size_t>(rank)].messages) {
          EXPECT_EQ(rank, end.is_sent ? end.from : end.to);
          EXPECT_TRUE(is_in_its_step(end, laps[static_cast<size_t>(rank)])) << mode << ": " << end.what;
          const bool is_new =
              (end.is_sent ? sent : received).emplace(std::tuple(end.step, end.from, end.to, end.tag), end).second;
          EXPECT_TRUE(is_new) << mode << ": " << end.what;
        }
      EXPECT_EQ(sent.size(), 3 * per_step) << mode;
      ASSERT_EQ(received.size(), sent.size()) << mode;
      for (const auto& [key, end] : sent) {
        ASSERT_TRUE(received.contains(key)) << mode << ": " << end.what;
        EXPECT_EQ(received.at(key).what, end.what);
        EXPECT_LE(end.ns, received.at(key).ns) << mode << ": " << end.what;
      }
    }
}

}  // namespace
}  // namespace penstock
