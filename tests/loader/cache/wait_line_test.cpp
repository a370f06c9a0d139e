// WaitLine: what it says, and when.
#include "loader/cache/wait_line.h"

#include <gtest/gtest.h>

namespace penstock::detail {
namespace {

constexpr int64_t kSecond_ns = 1'000'000'000;

TEST(WaitLineTest, OnATerminalALineIsRewrittenAndCleared) {
  WaitLine line(/*is_terminal=*/true);
  EXPECT_EQ(line.tick(0, 7'000'000, false), "");
  line.begin("0a", "s3://bucket/train/shard-00003.safetensors", 85'000'000);
  EXPECT_EQ(line.tick(10 * kSecond_ns, 7'000'000, false), "");  // the wait begins
  line.arrived("0a", 12'000'000);
  EXPECT_EQ(line.tick(10.9 * kSecond_ns, 15'000'000, false), "");
  EXPECT_EQ(line.tick(12 * kSecond_ns, 15'000'000, false),
            "\r\033[Kwaiting for shard-00003.safetensors from s3://bucket/train: 12.0 MB of 85.0 MB, 4.0 MB/s");
  EXPECT_EQ(line.tick(12.1 * kSecond_ns, 15'000'000, false), "");
  line.arrived("0a", 20'000'000);
  EXPECT_EQ(line.tick(14 * kSecond_ns, 23'000'000, true),
            "\r\033[Kwaiting for shard-00003.safetensors from s3://bucket/train: 20.0 MB of 85.0 MB, 4.0 MB/s "
            "[emulated]");
  line.end("0a");
  EXPECT_EQ(line.tick(15 * kSecond_ns, 85'000'000, false), "\r\033[K");
  EXPECT_EQ(line.tick(16 * kSecond_ns, 85'000'000, false), "");
}

TEST(WaitLineTest, ElsewhereALineIsWrittenEvery30Seconds) {
  WaitLine line(/*is_terminal=*/false);
  line.begin("0a", "https://host/a.safetensors", 1'000'000);
  line.begin("0b", "https://host/b.safetensors", 3'000'000);
  line.arrived("0a", 500'000);
  line.arrived("0c", 9'000'000);  // which nobody waits for
  std::string all;
  for (int second = 0; second <= 59; ++second) all += line.tick(second * kSecond_ns, second * 100'000ull, false);
  EXPECT_EQ(all, "waiting for a.safetensors from https://host and 1 more shard: 500.0 KB of 4.0 MB, 100.0 KB/s\n");
  line.end("0a");
  line.end("0b");
  EXPECT_EQ(line.tick(59.5 * kSecond_ns, 0, false), "");
}

TEST(WaitLineTest, AShortWaitAfterALineDoesNotMakeAnother) {
  WaitLine line(/*is_terminal=*/false);
  int count = 0;
  for (int second = 0; second < 300; ++second) {  // every tenth second nobody waits
    if (second % 10 == 0) line.begin("0a", "https://host/a.safetensors", 1'000'000);
    if (second % 10 == 9) line.end("0a");
    count += line.tick(second * kSecond_ns, 0, false).empty() ? 0 : 1;
  }
  EXPECT_EQ(count, 0);
}

TEST(WaitLineTest, TwoThreadsThatWaitForAShardEndTheirWaitsOneByOne) {
  WaitLine line(/*is_terminal=*/true);
  line.begin("0a", "https://host/a.safetensors", 1'000'000);
  line.begin("0a", "https://host/a.safetensors", 1'000'000);
  line.end("0a");
  EXPECT_EQ(line.tick(0, 0, false), "");
  EXPECT_NE(line.tick(2 * kSecond_ns, 0, false), "");
  line.end("0a");
  EXPECT_EQ(line.tick(3 * kSecond_ns, 0, false), "\r\033[K");
}

}  // namespace
}  // namespace penstock::detail
