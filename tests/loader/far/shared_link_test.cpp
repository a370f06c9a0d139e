// The link of a machine: what came over it, whoever asked, and an emulated one's bytes.
#include "loader/far/shared_link.h"

#include <gtest/gtest.h>

#include "core/clock.h"

namespace penstock::detail {
namespace {

void pass(double ms) {
  for (const int64_t begin_ns = now_ns(); ms_since(begin_ns) < ms;) {
  }
}

TEST(SharedLinkTest, FlowsBesideEachOtherTakeTheirTimeOnce) {
  SharedLink link;
  const int64_t begin_ns = now_ns();
  link.begin_flow(0);
  link.begin_flow(63);
  pass(3);
  link.end_flow(0);
  pass(1);
  link.end_flow(63);
  EXPECT_GE(link.flow_ms(), 4);
  EXPECT_LE(link.flow_ms(), ms_since(begin_ns));
  const double ended_ms = link.flow_ms();
  pass(2);
  EXPECT_EQ(link.flow_ms(), ended_ms) << "nothing flows";
}

TEST(SharedLinkTest, WhatAKilledProcessHasLeftDoesNotCount) {
  SharedLink link;
  link.begin_flow(5);
  pass(5);
  link.forget_flow(5);
  const int64_t begin_ns = now_ns();
  link.begin_flow(5);
  link.end_flow(5);
  EXPECT_LE(link.flow_ms(), ms_since(begin_ns));
}

TEST(SharedLinkTest, BytesOfAllComeAtTheRateOfOneLink) {
  SharedLink link;
  const int64_t ready_ns = now_ns() + 20'000'000;
  // 157 kB at 100 MB/s are 1.57 ms, which do not begin before they are ready, however long nothing came before.
  EXPECT_EQ(link.reserve(157'000, 100e6, ready_ns), ready_ns + 1'570'000);
  EXPECT_EQ(link.reserve(157'000, 100e6, ready_ns), ready_ns + 3'140'000);
  EXPECT_EQ(link.reserve(100'000, 100e6, ready_ns + 9'000'000), ready_ns + 10'000'000);
}

TEST(SharedLinkTest, AThreadThatComesLateByAMomentLosesNothing) {
  SharedLink link;
  const int64_t now = now_ns();
  EXPECT_EQ(link.reserve(100'000, 100e6, now - 3'000'000), now - 2'000'000);
  EXPECT_GE(link.reserve(100'000, 100e6, now - 900'000'000), now - 5'000'000) << "but what a stopped one has not taken";
}

}  // namespace
}  // namespace penstock::detail
