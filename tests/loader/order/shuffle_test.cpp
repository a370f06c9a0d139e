// Shuffle: its words, and what is refused.
#include "loader/order/shuffle.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace penstock {
namespace {

std::string shuffle_error(const std::string& text) {
  try {
    parse_shuffle("--shuffle", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
  return "";
}

TEST(ShuffleTest, ParsesWhatItPrints) {
  for (const auto& shuffle : {Shuffle::kNone, Shuffle::kGlobal, Shuffle::kRankLocal, Shuffle::shards(),
                              Shuffle::shards(64, 4), Shuffle::shards(1, 1)})
    EXPECT_EQ(parse_shuffle("--shuffle", shuffle.text()), shuffle);
  EXPECT_EQ(Shuffle::shards().text(), "shards(window=256,lanes=8)");
}

TEST(ShuffleTest, KeysHaveDefaults) {
  EXPECT_EQ(parse_shuffle("--shuffle", "shards"), Shuffle::shards(256, 8));
  EXPECT_EQ(parse_shuffle("--shuffle", "shards()"), Shuffle::shards(256, 8));
  EXPECT_EQ(parse_shuffle("--shuffle", "shards(lanes=2)"), Shuffle::shards(256, 2));
  EXPECT_EQ(parse_shuffle("--shuffle", "shards(window=100)"), Shuffle::shards(100, 8));
  EXPECT_EQ(parse_shuffle("--shuffle", "shards(window=5)"), Shuffle::shards(5, 5));
}

TEST(ShuffleTest, RefusesInOneLine) {
  EXPECT_EQ(shuffle_error("shards(window=0)"), "shuffle shards: window is 0; expected 1 to 1048576 shards");
  EXPECT_EQ(shuffle_error("shards(lanes=0)"),
            "shuffle shards: lanes is 0; expected 1 to 256 with a window of 256, because a lane has a shard or more");
  EXPECT_EQ(shuffle_error("shards(window=4,lanes=8)"),
            "shuffle shards: lanes is 8; expected 1 to 4 with a window of 4, because a lane has a shard or more");
  EXPECT_EQ(shuffle_error("shards(window=-1)"), "shuffle shards: window is -1; expected 1 to 1048576 shards");
  EXPECT_NE(shuffle_error("shards(windows=3)").find("unknown key \"windows\""), std::string::npos);
  EXPECT_NE(shuffle_error("shards(window=much)").find("window is \"much\""), std::string::npos);
  EXPECT_NE(shuffle_error("shards(window=3").find("shuffle"), std::string::npos);
  EXPECT_NE(shuffle_error("shard").find("did you mean"), std::string::npos);
  EXPECT_NE(shuffle_error("global(window=3)").find("global, none, rank-local, shards"), std::string::npos);
}

}  // namespace
}  // namespace penstock
