// The limit of requests that processes share: each folder object here stands for a process, whose locks are its own.
#include "loader/cache/node_turns.h"

#include <gtest/gtest.h>

#include <ctime>
#include <memory>
#include <optional>
#include <vector>

#include "tests/support/testing.h"

namespace penstock::detail {
namespace {

struct Process {
  explicit Process(const std::filesystem::path& path) : folder(path, "1mb"), turns(folder) {}
  TurnTable& table() { return *reinterpret_cast<TurnTable*>(folder.shared().data()); }
  /// Takes all turns that there are.
  int take_all() {
    int count = 0;
    while (turns.take() != SharedTurns::kNoTurn) ++count;
    return count;
  }
  CacheFolder folder;
  NodeTurns turns;
};

class NodeTurnsTest : public testing::Test {
 protected:
  std::unique_ptr<Process> process() const { return std::make_unique<Process>(top_.path() / "cache"); }
  penstock::TemporaryFolder top_{"node-turns"};
};

TEST_F(NodeTurnsTest, AreOfAllProcessesTogether) {
  const auto first = process(), second = process();
  first->table().limit = 3;
  std::vector<int> turns{first->turns.take(), second->turns.take(), first->turns.take()};
  EXPECT_EQ(turns, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(second->turns.take(), SharedTurns::kNoTurn);
  EXPECT_EQ(first->turns.take(), SharedTurns::kNoTurn);
  first->turns.give_back(0);
  EXPECT_EQ(second->turns.take(), 0);
}

TEST_F(NodeTurnsTest, HalveFromThoseThatAreHadAndGrowStepByStep) {
  const auto first = process(), second = process();
  EXPECT_EQ(first->table().limit_now(), 64U);
  for (int i = 0; i < 5; ++i) first->turns.take();
  for (int i = 0; i < 2; ++i) second->turns.take();
  second->turns.slow_down();  // 7, and the one that this was said to
  EXPECT_EQ(first->table().limit_now(), 4U);
  for (int i = 0; i < 9; ++i) first->turns.slow_down();
  EXPECT_EQ(second->table().limit_now(), 1U);
  for (const uint32_t expected : {2U, 2U, 3U, 3U, 3U, 4U}) {
    second->turns.succeeded();
    EXPECT_EQ(first->table().limit_now(), expected);
  }
  for (int i = 0; i < 3000; ++i) first->turns.succeeded();
  EXPECT_EQ(first->table().limit_now(), 64U);
}

TEST_F(NodeTurnsTest, EndWithTheirProcess) {
  const auto first = process();
  {
    const auto killed = process();
    EXPECT_EQ(killed->take_all(), 64);
    EXPECT_EQ(first->turns.take(), SharedTurns::kNoTurn);
  }
  EXPECT_EQ(first->take_all(), 64);
}

TEST_F(NodeTurnsTest, OfAStoppedProcessAreHadByOneRequestOfEachOther) {
  const auto stopped = process(), first = process(), second = process();
  stopped->table().limit = 1;
  EXPECT_EQ(stopped->turns.take(), 0);
  EXPECT_EQ(first->turns.take(), SharedTurns::kNoTurn);
  stopped->table().beat_s[0] = std::time(nullptr) - 10;
  EXPECT_EQ(first->take_all(), 1);
  first->turns.beat();  // says nothing of the other's turn
  EXPECT_EQ(second->take_all(), 1);
  second->turns.give_back(0);
  stopped->turns.beat();
  EXPECT_EQ(second->turns.take(), SharedTurns::kNoTurn) << "it goes on, and still has its turn";
}

TEST_F(NodeTurnsTest, AByteOfAnyProcessCounts) {
  const auto first = process(), second = process();
  EXPECT_GT(second->turns.byte_age_s(), 1'000'000) << "none came yet";
  first->turns.note_byte();
  EXPECT_LT(second->turns.byte_age_s(), 100);
}

TEST_F(NodeTurnsTest, TheLinkIsOfAllProcessesAndWhatAKilledOneLeavesGoesWithItsTurn) {
  const auto first = process();
  {
    const auto killed = process();
    const int turn = killed->turns.take();
    killed->turns.link().count(500);
    killed->turns.link().begin_flow(turn);
  }
  EXPECT_EQ(first->turns.link().byte_count(), 500U);
  EXPECT_GT(first->turns.link().flow_ms(), 0);
  EXPECT_EQ(first->turns.take(), 0);
  EXPECT_EQ(first->turns.link().flow_ms(), 0);
}

TEST_F(NodeTurnsTest, TheFirstProcessBeginsWithoutALimit) {
  process()->turns.slow_down();
  const auto first = process();
  EXPECT_EQ(first->table().limit_now(), 64U);
  first->table().limit = 2;
  EXPECT_EQ(process()->table().limit_now(), 2U) << "it is not the first one";
}

TEST_F(NodeTurnsTest, ARequestWaitsForOneAndGivesUpWhenNobodyWaits) {
  const auto first = process(), second = process();
  first->table().limit = 1;
  RequestLimiter limiter(16);
  limiter.share(first->turns);
  const int turn = second->turns.take();
  first->table().beat_s[0] = std::time(nullptr) + 1'000'000;  // on a busy machine this test may take longer than 3 s
  int asked_count = 0;
  {
    const RequestLimiter::Turn given_up(limiter, [&] { return ++asked_count < 2; });
    EXPECT_EQ(asked_count, 2);
  }
  {
    const RequestLimiter::Turn had(limiter, [&] {
      second->turns.give_back(turn);
      return true;
    });
    EXPECT_EQ(second->turns.take(), SharedTurns::kNoTurn);
  }
  EXPECT_EQ(second->turns.take(), 0);
}

}  // namespace
}  // namespace penstock::detail
