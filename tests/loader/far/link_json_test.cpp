// link_json() and link_of_json(): the counts of a run survive its summary.
#include "loader/far/link_json.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace penstock {
namespace {

TEST(LinkJsonTest, WhatIsWrittenIsReadAgain) {
  const LinkStats link{.hit_count = 1,
                       .hit_bytes = 2,
                       .miss_count = 3,
                       .miss_bytes = 4,
                       .ahead_count = 5,
                       .ahead_bytes = 6,
                       .fetched_bytes = 70,
                       .ideal_bytes = 50,
                       .eviction_count = 8,
                       .request_count = 9,
                       .stall_count = 10,
                       .stall_ms = 11.5,
                       .transfer_ms = 12.5,
                       .retries = {{"503", 4}, {"lost", 1}},
                       .origin_bytes = {{"s3://bucket", 60}, {"https://host", 10}},
                       .is_emulated = true};
  const LinkStats read = link_of_json(link_json(link));
  EXPECT_EQ(link_json(read), link_json(link));
  EXPECT_EQ(link_text(read), link_text(link));
  EXPECT_EQ(read.over_bytes(), 20U);
}

TEST(LinkJsonTest, OtherTextsAreRefused) {
  for (const char* text : {"", "{}", "[1]", R"({"emulated":"yes"})"})
    EXPECT_THROW(link_of_json(text), std::exception) << text;
}

}  // namespace
}  // namespace penstock
