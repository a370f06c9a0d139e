// Roll call: which rank is to blame.
#include "train/rendezvous/heartbeat.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace penstock::detail {
namespace {

using testing::MatchesRegex;

TEST(HeartbeatTest, ARankThatFallsSilentIsNamedAndTheOthersHearTheSame) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  static_cast<c10d::Store&>(*store).set("roll/1", std::string("9 56 100"));  // the entry that a killed rank leaves
  Heartbeat first(store, 0, 3), third(store, 2, 3);
  first.at_step(57);
  const std::string blame = first.explain(0);
  EXPECT_THAT(blame,
              MatchesRegex("rank 1 did not come past step 57, last heard of [0-9]+ s ago; expected it to run, it "
                           "was killed or stopped, or its machine is gone"));
  first.end("too late");  // returns when the third rank knows
  third.end("too late");
  EXPECT_EQ(third.explain(0), blame);
}

TEST(HeartbeatTest, ARankThatNeverSaidAnythingHidesNoOther) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Heartbeat first(store, 0, 3), third(store, 2, 3);
  EXPECT_THAT(first.explain(0), MatchesRegex("rank 1 did not follow, last heard of [0-9]+ s ago; expected it .*"));
}

/// A store with these rows.
c10::intrusive_ptr<c10d::HashStore> store_with(const std::map<std::string, std::string>& rows) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (const auto& [key, text] : rows) static_cast<c10d::Store&>(*store).set(key, text);
  return store;
}

TEST(HeartbeatTest, SeveralRanksAreSpokenOfInThePlural) {
  const auto silent = store_with({{"roll/1", "9 56 100"}, {"roll/3", "9 56 100"}});
  Heartbeat first(silent, 0, 4), third(silent, 2, 4);
  EXPECT_THAT(first.explain(0),
              MatchesRegex("ranks 1, 3 did not follow, last heard of [0-9]+ s ago; expected them to run, they were "
                           "killed or stopped, or their machines are gone"));
  Heartbeat alone(store_with({{"roll/1", "left"}, {"roll/2", "left"}}), 0, 3);
  EXPECT_EQ(alone.explain(0), "ranks 1, 2 have left; expected them to stay until all ranks are done");
  const auto slow = store_with({});
  Heartbeat ahead(slow, 0, 3), behind(slow, 1, 3), last(slow, 2, 3);
  ahead.begin_collective();
  EXPECT_EQ(ahead.explain(3),
            "ranks 1, 2 did not follow within 3 s, they are alive, rank 1 at step 0; expected ranks of about equal "
            "speed, or a longer --timeout");
}

TEST(HeartbeatTest, ARankIsNotCalledAliveForWhatItSaidBeforeTheTimeWasUp) {
  const auto store = store_with({{"roll/1", "9 56 0"}});  // what a rank wrote that was stopped since
  Heartbeat first(store, 0, 2);
  first.begin_collective();
  // In its second round it has read what was there in the first.
  while (!store->check({"roll/0"}) || !store->get_to_str("roll/0").starts_with("2 ")) std::this_thread::yield();
  EXPECT_THAT(first.explain(1), MatchesRegex("rank 1 did not follow within 1 s, last heard of [0-9]+ s ago; .*"));
}

TEST(HeartbeatTest, TheFirstReasonCounts) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Heartbeat first(store, 0, 2), second(store, 1, 2);
  second.end("rank 1 has ended: the disk is full");
  first.end("rank 0 has ended: rank 1 is gone");
  EXPECT_EQ(first.explain(0), "rank 1 has ended: the disk is full");
  EXPECT_EQ(second.explain(0), "rank 1 has ended: the disk is full");
}

/// A store that stops answering, like the store of a rank 0 that was stopped.
class DeafStore final : public c10d::HashStore {
 public:
  c10::intrusive_ptr<Store> clone() override { throw std::runtime_error("Connection reset by peer"); }
};

TEST(HeartbeatTest, AStoreThatIsGoneIsRankZero) {
  Heartbeat second(c10::make_intrusive<DeafStore>(), 1, 2);
  EXPECT_THAT(second.explain(3), MatchesRegex("rank 0 did not follow within 3 s, last heard of .*"));
}

TEST(HeartbeatTest, AStoreOfTheLauncherThatIsGoneIsNotRankZero) {
  Heartbeat second(c10::make_intrusive<DeafStore>(), 1, 2, "node7:29500");
  EXPECT_THAT(second.explain(3), MatchesRegex("the store at node7:29500 has not answered for [0-9]+ s; expected the "
                                              "launcher to keep it until all ranks are done"));
}

}  // namespace
}  // namespace penstock::detail
