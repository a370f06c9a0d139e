// The rules of the network, one by one.
#include "loader/far/retry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "loader/far/limiter.h"

namespace penstock::detail {
namespace {

Verdict far_verdict(int status, const std::string& code = "") { return verdict_of({.status = status, .code = code}); }
Verdict far_verdict(Attempt::End end) { return verdict_of({.end = end}); }

TEST(RetryTest, EveryAnswerHasItsVerdict) {
  EXPECT_EQ(far_verdict(200), Verdict::kDone);
  EXPECT_EQ(far_verdict(206), Verdict::kDone);
  for (const int status : {500, 502, 504, 408}) EXPECT_EQ(far_verdict(status), Verdict::kAgain) << status;
  EXPECT_EQ(far_verdict(503), Verdict::kAgainSlower);
  EXPECT_EQ(far_verdict(503, "SlowDown"), Verdict::kAgainSlower);
  EXPECT_EQ(far_verdict(429), Verdict::kAgainSlower);
  EXPECT_EQ(far_verdict(404), Verdict::kMissing);
  EXPECT_EQ(far_verdict(412), Verdict::kRestart);
  for (const int status : {400, 401, 403}) EXPECT_EQ(far_verdict(status), Verdict::kRenew) << status;
  EXPECT_EQ(far_verdict(400, "ExpiredToken"), Verdict::kRenew);
  EXPECT_EQ(far_verdict(400, "RequestTimeout"), Verdict::kAgain);
  EXPECT_EQ(far_verdict(403, "RequestTimeTooSkewed"), Verdict::kSetClock);
  EXPECT_EQ(far_verdict(301), Verdict::kRefused);
  for (const int status : {204, 405, 416, 418, 501}) EXPECT_EQ(far_verdict(status), Verdict::kFailed) << status;
}

TEST(RetryTest, EveryBrokenConnectionHasItsVerdict) {
  for (const auto end : {Attempt::End::kNoHost, Attempt::End::kLost, Attempt::End::kWrongRange, Attempt::End::kOther})
    EXPECT_EQ(far_verdict(end), Verdict::kAgain);
  EXPECT_EQ(far_verdict(Attempt::End::kStalled), Verdict::kReconnect);
  EXPECT_EQ(far_verdict(Attempt::End::kOutOfFiles), Verdict::kOutOfFiles);
  EXPECT_EQ(far_verdict(Attempt::End::kDistrusted), Verdict::kRefused);
  EXPECT_EQ(far_verdict(Attempt::End::kRedirects), Verdict::kFailed);
}

TEST(RetryTest, WaitsDoubleUpToTwentySecondsAndAreSpread) {
  for (const auto& [failures, longest] : {std::pair{1, 0.5}, {2, 1.0}, {3, 2.0}, {6, 16.0}, {7, 20.0}, {1000, 20.0}}) {
    EXPECT_DOUBLE_EQ(back_off_s(failures, 0), 0);
    EXPECT_DOUBLE_EQ(back_off_s(failures, 0.5), longest / 2);
    EXPECT_LT(back_off_s(failures, 0.999), longest);
  }
}

TEST(RetryTest, WhatTheServiceAsksForIsWaited) {
  EXPECT_DOUBLE_EQ(back_off_s(1, 0.5, 7.0), 7);
  EXPECT_DOUBLE_EQ(back_off_s(9, 0.5, 0.0), 0);
  EXPECT_DOUBLE_EQ(back_off_s(1, 0.5, 1e9), 60);
  EXPECT_EQ(parse_retry_after("120", 0), 120);
  EXPECT_EQ(parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 40), 60);
  EXPECT_EQ(parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 400), 0);
  for (const char* text : {"", "-1", "soon", "1.5", "99999999999999999999", "Thu, 01 Jan"})
    EXPECT_EQ(parse_retry_after(text, 0), std::nullopt) << text;
}

TEST(LimiterTest, HalvesAndGrowsStepByStep) {
  RequestLimiter limiter(16);
  limiter.slow_down();
  EXPECT_EQ(limiter.limit(), 8);
  limiter.slow_down();
  limiter.slow_down();
  limiter.slow_down();
  limiter.slow_down();
  EXPECT_EQ(limiter.limit(), 1);
  for (const int expected : {2, 2, 3, 3, 3, 4}) {
    limiter.succeeded();
    EXPECT_EQ(limiter.limit(), expected);
  }
  for (int i = 0; i < 1000; ++i) limiter.succeeded();
  EXPECT_EQ(limiter.limit(), 16);
}

TEST(LimiterTest, NoMoreThanTheLimitRunAtATime) {
  RequestLimiter limiter(3);
  std::atomic<int> running{0}, most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        const RequestLimiter::Turn turn(limiter, [] { return true; });
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        --running;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 3);
}

}  // namespace
}  // namespace penstock::detail
