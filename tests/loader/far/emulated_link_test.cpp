// --sim-link: what it takes, and that bytes and counts are those of a fetch from far away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "core/clock.h"
#include "loader/far/link_stats.h"
#include "loader/far/origin.h"
#include "loader/far/sim_link.h"
#include "loader/far/transfer.h"
#include "loader/files/interrupt.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

TEST(LinkSpeedTest, IsADelayAndARate) {
  EXPECT_DOUBLE_EQ(parse_link_speed("--sim-link", "20ms,100MB/s").delay_ms, 20);
  EXPECT_DOUBLE_EQ(parse_link_speed("--sim-link", "20ms,100MB/s").bytes_per_second, 100e6);
  EXPECT_DOUBLE_EQ(parse_link_speed("--sim-link", "0.5ms,1.5GB/s").bytes_per_second, 1.5e9);
  EXPECT_DOUBLE_EQ(parse_link_speed("--sim-link", "8kB/s").delay_ms, 0);
  EXPECT_DOUBLE_EQ(parse_link_speed("--link", "8kB/s,0.5ms").delay_ms, 0.5);
  EXPECT_DOUBLE_EQ(parse_link_speed("--link", "8kB/s,0.5ms").bytes_per_second, 8e3);
}

TEST(LinkSpeedTest, RefusesOtherTextsInOneLine) {
  for (const char* text :
       {"", "20ms", "100", "MB/s", "20,100MB/s", "-1ms,1MB/s", "20ms,0MB/s", "20ms,1MB/s,", "20ms,100mb/s",
        "20001ms,1MB/s", "1e3MB/s", "nanMB/s", "20ms,,1MB/s", "20ms,20ms", "1MB/s,1MB/s", "20ms,1MB/s,20ms"}) {
    EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { parse_link_speed("--sim-link:", text); }),
              concat("--sim-link: is \"", text,
                     "\"; expected a delay and a rate as in 20ms,100MB/s (up to 10000ms, 1kB/s or more), or a rate as "
                     "in 1GB/s"));
  }
}

TEST(LinkSpeedTest, WhatIsFarAlreadyIsRefused) {
  EXPECT_EQ(message_of(ErrorKind::kConfig, [] { behind_sim_link("--sim-link:", "1MB/s", "https://host/photos"); }),
            "--sim-link: is \"1MB/s\" with https://host/photos; expected a local data set");
}

/// A file of 100,000 bytes that are told apart, behind a link of 20 ms and 2 MB/s.
class EmulatedLinkTest : public testing::Test {
 protected:
  EmulatedLinkTest() : folder_("emulated-link"), bytes_(100'000) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<uint8_t>(i * 131 >> 3);
    std::ofstream(folder_.path() / "file", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
    std::ofstream(folder_.path() / "empty");
    address_ = behind_sim_link("--sim-link", "20ms,2MB/s", (folder_.path() / "file").string());
  }
  ~EmulatedLinkTest() override { unsetenv(kSimLinkVariable); }

  penstock::TemporaryFolder folder_;  // another one is in testing_data
  std::vector<uint8_t> bytes_;
  std::string address_;
  std::unique_ptr<detail::Origin> origin_ = detail::make_emulated_origin();
};

TEST_F(EmulatedLinkTest, GivesTheBytesOfTheFileAndCountsThem) {
  const LinkStats before = link_stats();
  EXPECT_EQ(detail::transfer_whole(*origin_, address_, UINT64_MAX), bytes_);
  const LinkStats got = since(before, link_stats());
  EXPECT_EQ(got.fetched_bytes, bytes_.size());
  EXPECT_EQ(got.over_bytes(), 0);
  EXPECT_EQ(got.origin_bytes, (std::map<std::string, uint64_t>{{"sim", bytes_.size()}}));
  EXPECT_EQ(got.request_count, 1);
  EXPECT_TRUE(got.is_emulated);
  EXPECT_GE(got.latency_ms, 20);   // no request is faster than the link, however busy the machine is
  EXPECT_GE(got.transfer_ms, 40);  // 50 ms, less the 5 ms of the bucket and the first piece
}

TEST_F(EmulatedLinkTest, GivesARange) {
  std::vector<uint8_t> got;
  const detail::TransferCallbacks callbacks{.sink = [&](uint64_t, std::span<const uint8_t> part, const auto&) {
    got.insert(got.end(), part.begin(), part.end());
  }};
  detail::transfer(*origin_, {.address = address_, .begin = 1000, .end = 6000}, callbacks);
  EXPECT_EQ(got, std::vector<uint8_t>(bytes_.begin() + 1000, bytes_.begin() + 6000));
}

TEST_F(EmulatedLinkTest, MissingAndEmptyFilesAreTold) {
  EXPECT_TRUE(detail::object_exists(*origin_, address_));
  EXPECT_FALSE(detail::object_exists(*origin_, address_ + "-missing"));
  EXPECT_TRUE(detail::transfer_whole(*origin_, kSimScheme + (folder_.path() / "empty").string(), UINT64_MAX).empty());
}

TEST_F(EmulatedLinkTest, WithoutASpeedItIsRefused) {
  unsetenv(kSimLinkVariable);
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { detail::transfer_whole(*origin_, address_, UINT64_MAX); }),
            "PENSTOCK_SIM_LINK: is not set; expected the speed of the link, as in 20ms,100MB/s");
}

TEST(LinkStatsTest, CountsShardsRetriesAndWhatCameTwice) {
  const LinkStats before = link_stats();
  detail::count_fetch("link-stats-test-a", 100, /*is_ahead=*/false);
  detail::count_fetch("link-stats-test-a", 100, /*is_ahead=*/false);
  detail::count_fetch("link-stats-test-b", 50, /*is_ahead=*/true);
  detail::count_bytes("s3://bucket/photos/shard", 260);
  detail::count_hit(100);
  detail::count_retry("503");
  detail::count_retry("503");
  detail::count_retry("lost");
  detail::count_eviction();
  detail::count_stall(2000);
  const LinkStats got = since(before, link_stats());
  EXPECT_EQ(got.miss_count, 2);
  EXPECT_EQ(got.miss_bytes, 200);
  EXPECT_EQ(got.ahead_bytes, 50);
  EXPECT_EQ(got.ideal_bytes, 150);
  EXPECT_EQ(got.over_bytes(), 110);
  EXPECT_EQ(got.hit_bytes, 100);
  EXPECT_EQ(got.retries, (std::map<std::string, uint64_t>{{"503", 2}, {"lost", 1}}));
  EXPECT_EQ(got.origin_bytes, (std::map<std::string, uint64_t>{{"s3://bucket", 260}}));
  EXPECT_EQ(plus(got, got).over_bytes(), 220);
  EXPECT_EQ(plus(got, got).retries.at("503"), 4);
  EXPECT_THAT(link_text(got), testing::HasSubstr("1 evicted; 1 stall of 2000 ms together; tried again: 503 2, lost 1"));
  EXPECT_EQ(link_text({}), "");
}

TEST_F(EmulatedLinkTest, ATransferThatIsInterruptedIsGivenUp) {
  behind_sim_link("--sim-link", "10000ms,1kB/s", (folder_.path() / "file").string());
  const detail::InterruptScope::Check is_over = [asked = 0]() mutable { return ++asked > 2; };
  const detail::InterruptScope scope(is_over);
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { detail::transfer_whole(*origin_, address_, UINT64_MAX); }),
              testing::HasSubstr("the transfer was given up at byte 0"));
}

TEST(LinkStatsTest, TransfersBesideEachOtherTakeTheirTimeOnce) {
  const LinkStats before = link_stats();
  const int64_t begin_ns = now_ns();
  {
    const detail::Flow one(begin_ns), other(begin_ns);
    while (ms_since(begin_ns) < 5) {
    }
  }
  const LinkStats got = since(before, link_stats());
  EXPECT_GE(got.transfer_ms, 4);
  EXPECT_LE(got.transfer_ms, ms_since(begin_ns));
  EXPECT_EQ(got.request_count, 2);
}

}  // namespace
}  // namespace penstock
