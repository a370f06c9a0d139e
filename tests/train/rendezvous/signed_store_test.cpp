// Signed store: a client without the token is neither counted nor heard.
#include "train/rendezvous/signed_store.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "train/rendezvous/heartbeat.h"
#include "train/rendezvous/store_rendezvous.h"
#include "train/rendezvous/token.h"

namespace penstock::detail {
namespace {

using testing::MatchesRegex;

c10::intrusive_ptr<c10d::Store> make_store() { return c10::make_intrusive<c10d::HashStore>(); }

TEST(SignedStoreTest, OnlyTextsOfThoseWhoHaveTheTokenAreThere) {
  const auto store = make_store();
  SignedStore one(store, "token"), other(store, "token"), stranger(store, "");
  one.set("key", "a text");
  EXPECT_EQ(other.find("key"), "a text");
  const std::string signed_text = *stranger.find("key");
  stranger.set("another key", signed_text);  // what was said of one thing says nothing of another
  EXPECT_EQ(other.find("another key"), std::nullopt);
  for (const std::string forged : {"a text", "x", " ", "0123456789 a text"}) {
    stranger.set("key", forged);
    EXPECT_EQ(other.find("key"), std::nullopt) << forged;
  }
}

TEST(SignedStoreTest, TheFirstTextStaysAndAStrangersIsReplaced) {
  const auto store = make_store();
  SignedStore one(store, "token"), other(store, "token"), stranger(store, "");
  stranger.set("key", "a stranger's");
  EXPECT_EQ(one.set_first("key", "one's"), "one's");
  EXPECT_EQ(other.set_first("key", "the other's"), "one's");
  EXPECT_EQ(SignedStore(make_store(), "").set_first("key", "plain"), "plain");
}

TEST(SignedStoreTest, EveryTokenIsAnother) {
  EXPECT_THAT(random_token(), MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(random_token().size(), 32U);
  EXPECT_NE(random_token(), random_token());
}

/// What a stranger writes who has read Penstock's sources.
void meddle(c10d::Store& store) {
  for (const char* key : {"place/0", "place/1", "terms/1", "contact/1", "world-size", "refusal", "reason", "roll/1"})
    store.set(key, std::string(key) == "roll/1" ? "left" : "7");
  store.add("arrived", 2);
}

TEST(SignedStoreTest, AStrangerEndsNoMeetingAndIsNotCounted) {
  const auto store = make_store();
  meddle(*store);
  std::promise<std::string> missed;  // by rank 0, though two have been counted
  const auto join = [&](int rank) {
    SignedStore own(store, "token");
    bool has_waited = rank != 0;
    agree(own, {.rank = rank, .world_size = 2}, {{"--lr", "0.1"}}, [&](const std::string& missing) {
      if (!std::exchange(has_waited, true)) missed.set_value(missing);
    });
  };
  std::thread first([&] { EXPECT_NO_THROW(join(0)); });
  EXPECT_EQ(missed.get_future().get(), "rank 1");
  EXPECT_NO_THROW(join(1));
  first.join();
}

TEST(SignedStoreTest, AStrangersReasonAndRowAreNotHeard) {
  const auto store = make_store();
  meddle(*store);
  Heartbeat first(store, 0, 2, "", "token"), second(store, 1, 2, "", "token");
  EXPECT_EQ(first.explain(0), "");  // after 4 s, in which both are there
  EXPECT_FALSE(first.has_lost_a_rank());
  second.end("rank 1 has ended: the disk is full");
  EXPECT_EQ(first.explain(0), "rank 1 has ended: the disk is full");
}

}  // namespace
}  // namespace penstock::detail
