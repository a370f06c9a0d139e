// Ranges that are asked for twice: when, how often, and that each byte is taken once.
#include "loader/far/hedged_transfer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "core/text.h"
#include "loader/far/limiter.h"
#include "tests/support/testing.h"

namespace penstock::detail {
namespace {

constexpr int64_t kRange_ns = 1'000'000;
constexpr uint64_t kHedgeBytes = 100'000;

/// Knows `count` ranges of kHedgeBytes that came within a millisecond.
void know_ranges(RangeTimes& times, int count) {
  for (int i = 0; i < count; ++i) times.add(kHedgeBytes, kRange_ns);
}

TEST(RangeTimesTest, ThreeTimesTheMedianOfUnevenRangesOfSuchASizeIsLate) {
  RangeTimes times;
  know_ranges(times, 7);
  EXPECT_FALSE(times.late_after_ns(kHedgeBytes));
  times.add(kHedgeBytes, 60'000 * kRange_ns);
  EXPECT_EQ(times.late_after_ns(kHedgeBytes), 10'000'000);  // not 3 ms
  for (int i = 0; i < 9; ++i) times.add(kHedgeBytes, 50 * kRange_ns);
  EXPECT_EQ(times.late_after_ns(kHedgeBytes), 150 * kRange_ns);  // of 17 ranges the 95th percentile is the slow one
  EXPECT_EQ(times.late_after_ns(kHedgeBytes * 2), 150 * kRange_ns);
  EXPECT_FALSE(times.late_after_ns(kHedgeBytes * 2 + 2));
  EXPECT_FALSE(times.late_after_ns(kHedgeBytes / 2 - 1));
}

TEST(RangeTimesTest, WhereRangesAreEvenOneAndAHalfTimesTheirPercentileIsLate) {
  RangeTimes times;
  for (int i = 0; i < 99; ++i) times.add(kHedgeBytes, (i < 90 ? 50 : 60) * kRange_ns);
  times.add(kHedgeBytes, 60'000 * kRange_ns);
  EXPECT_EQ(times.late_after_ns(kHedgeBytes), 90 * kRange_ns);
}

TEST(RangeTimesTest, ATwentiethOfRequestsAndOfBytesIsAskedForTwice) {
  RangeTimes times;
  know_ranges(times, 19);
  EXPECT_FALSE(times.reserve(1));
  know_ranges(times, 21);
  EXPECT_FALSE(times.reserve(2 * kHedgeBytes + 1));
  EXPECT_TRUE(times.reserve(2 * kHedgeBytes));
  EXPECT_FALSE(times.reserve(1));
  times.settle(2 * kHedgeBytes, 1);
  EXPECT_FALSE(times.reserve(2 * kHedgeBytes));
  EXPECT_TRUE(times.reserve(2 * kHedgeBytes - 1));
  EXPECT_FALSE(times.reserve(0));  // two requests of 40
}

/// An object whose requests are answered by functions, one after the other.
class ScriptedOrigin final : public Origin {
 public:
  /// Gives `send(end)`, which sends the object up to `end`, and returns how the exchange ends.
  using Send = std::function<void(uint64_t end)>;
  using Act = std::function<Attempt::End(const HttpRequest& request, const Send& send)>;
  explicit ScriptedOrigin(std::vector<Act> acts) : object_(kHedgeBytes), acts_(std::move(acts)) {
    for (size_t i = 0; i < object_.size(); ++i) object_[i] = static_cast<uint8_t>(i * 131 >> 3);
  }

  HttpRequest request(const std::string& address, ObjectWish wish) override {
    return {.url = address, .headers = std::move(wish.headers)};
  }
  HttpResponse exchange(const HttpRequest& request, const HttpSink& sink) override {
    const size_t number = request_count++;
    uint64_t at = std::stoull(request.headers.at("range").substr(6));
    begins[number] = at;
    HttpResponse response;
    response.attempt.status = 206;
    response.headers["content-range"] = concat("bytes ", at, "-", kHedgeBytes - 1, "/", kHedgeBytes);
    response.headers["etag"] = etags[number];
    response.attempt.end = acts_.at(number)(request, [&](uint64_t end) {
      sink(response, std::span(object_).subspan(at, end - at));
      at = end;
    });
    return response;
  }

  const std::vector<uint8_t>& object() const { return object_; }

  std::atomic<size_t> request_count{0};
  std::array<std::string, 4> etags{"\"a\"", "\"a\"", "\"a\"", "\"a\""};
  std::array<uint64_t, 4> begins{};

 private:
  std::vector<uint8_t> object_;
  std::vector<Act> acts_;
};

/// Sends nothing more until the other request has won.
Attempt::End wait_until_over(const HttpRequest& request) {
  while (!*request.is_over) std::this_thread::yield();
  return Attempt::End::kAnswered;
}

class HedgedTransferTest : public testing::Test {
 protected:
  /// The bytes that the sink got, which checks that they come in order. Somebody waits once the first request is there,
  /// however late that is.
  std::vector<uint8_t> fetch(ScriptedOrigin& origin) {
    return fetch(origin, [&] { return origin.request_count > 0; });
  }
  std::vector<uint8_t> fetch(ScriptedOrigin& origin, const std::function<bool()>& is_waited_for) {
    std::vector<uint8_t> got;
    const TransferCallbacks callbacks{.sink = [&](uint64_t offset, std::span<const uint8_t> bytes, const ObjectFacts&) {
      EXPECT_EQ(offset, got.size());
      got.insert(got.end(), bytes.begin(), bytes.end());
    }};
    hedged_transfer(origin, {.address = "http://host/shard", .end = kHedgeBytes, .byte_count = kHedgeBytes}, callbacks,
                    times_, is_waited_for);
    return got;
  }

  RangeTimes times_;
};

TEST_F(HedgedTransferTest, TheSecondAskGoesOnWhereTheFirstOneIsSlow) {
  know_ranges(times_, 20);
  std::atomic<bool> is_waited_for = false;
  ScriptedOrigin origin({[&](const HttpRequest& request, const ScriptedOrigin::Send& send) {
                           send(30'000);
                           is_waited_for = true;
                           return wait_until_over(request);
                         },
                         [](const HttpRequest&, const ScriptedOrigin::Send& send) {
                           send(kHedgeBytes);
                           return Attempt::End::kAnswered;
                         }});
  EXPECT_EQ(fetch(origin, [&] { return is_waited_for.load(); }), origin.object());
  EXPECT_EQ(origin.request_count, 2U);
  EXPECT_EQ(origin.begins[1], 30'000U);
}

/// A second request that brings 50,000 bytes, says so, and then nothing until it is given up.
ScriptedOrigin::Act half_of_the_second(std::atomic<bool>& has_begun) {
  return [&has_begun](const HttpRequest& request, const ScriptedOrigin::Send& send) {
    send(50'000);
    has_begun = true;
    return wait_until_over(request);
  };
}

TEST_F(HedgedTransferTest, TheFirstOneMayWinAndBytesOfBothAreTakenOnce) {
  know_ranges(times_, 20);
  std::atomic<bool> is_waited_for = false, has_second_begun = false;
  ScriptedOrigin origin({[&](const HttpRequest&, const ScriptedOrigin::Send& send) {
                           send(30'000);
                           is_waited_for = true;
                           while (!has_second_begun) std::this_thread::yield();
                           send(70'000);
                           send(kHedgeBytes);
                           return Attempt::End::kAnswered;
                         },
                         half_of_the_second(has_second_begun)});
  EXPECT_EQ(fetch(origin, [&] { return is_waited_for.load(); }), origin.object());
  EXPECT_EQ(origin.request_count, 2U);
  // 20,000 bytes came twice, and the rest of what was reserved is given back: 5 % of 42 ranges are 210,000 bytes.
  know_ranges(times_, 21);
  EXPECT_FALSE(times_.reserve(190'001));
  EXPECT_TRUE(times_.reserve(190'000));
}

TEST_F(HedgedTransferTest, WhatNobodyWaitsForIsAskedForOnce) {
  know_ranges(times_, 20);
  std::atomic<int> question_count = 0;
  ScriptedOrigin* asked = nullptr;
  ScriptedOrigin origin({[&](const HttpRequest&, const ScriptedOrigin::Send& send) {
    while (question_count < 2 && asked->request_count < 2) std::this_thread::yield();  // late since the first question
    send(kHedgeBytes);
    return Attempt::End::kAnswered;
  }});
  asked = &origin;
  const auto nobody_waits = [&] {
    ++question_count;
    return false;
  };
  EXPECT_EQ(fetch(origin, nobody_waits), origin.object());
  EXPECT_EQ(origin.request_count, 1U);
}

/// Otherwise the limit would stay at one request after a storm of 503.
TEST_F(HedgedTransferTest, ARangeThatCameLetsTheLimitOfRequestsGrow) {
  RequestLimiter& limiter = request_limiter();
  const int most = limiter.limit();
  while (limiter.limit() > 1) limiter.slow_down();
  ScriptedOrigin origin({[&](const HttpRequest&, const ScriptedOrigin::Send& send) {
    send(kHedgeBytes);
    return Attempt::End::kAnswered;
  }});
  EXPECT_EQ(fetch(origin), origin.object());
  EXPECT_EQ(limiter.limit(), 2);
  while (limiter.limit() < most) limiter.succeeded();
}

TEST_F(HedgedTransferTest, WhatGoesWrongWithTheSecondOneEndsOnlyThat) {
  know_ranges(times_, 20);
  std::atomic<bool> has_second_ended = false;
  ScriptedOrigin origin({[&](const HttpRequest&, const ScriptedOrigin::Send& send) {
                           send(1);
                           while (!has_second_ended) std::this_thread::yield();
                           send(kHedgeBytes);
                           return Attempt::End::kAnswered;
                         },
                         [&](const HttpRequest&, const ScriptedOrigin::Send&) {
                           has_second_ended = true;
                           return Attempt::End::kDistrusted;
                         }});
  EXPECT_EQ(fetch(origin), origin.object());
  EXPECT_EQ(origin.request_count, 2U);
}

TEST_F(HedgedTransferTest, TheFirstOnesErrorIsTheErrorAndEndsTheSecond) {
  know_ranges(times_, 20);
  ScriptedOrigin* asked = nullptr;
  ScriptedOrigin origin(
      {[&](const HttpRequest&, const ScriptedOrigin::Send&) {
         while (asked->request_count < 2) std::this_thread::yield();
         return Attempt::End::kRedirects;
       },
       [](const HttpRequest& request, const ScriptedOrigin::Send&) { return wait_until_over(request); }});
  asked = &origin;
  const std::string message = message_of(ErrorKind::kIo, [&] { fetch(origin); });
  EXPECT_TRUE(message.ends_with("expected its bytes")) << message;
}

TEST_F(HedgedTransferTest, BytesOfTwoObjectsAreNotMixed) {
  know_ranges(times_, 20);
  std::atomic<bool> has_second_begun = false;
  ScriptedOrigin origin({[&](const HttpRequest&, const ScriptedOrigin::Send& send) {
                           while (!has_second_begun) std::this_thread::yield();
                           send(kHedgeBytes);
                           return Attempt::End::kAnswered;
                         },
                         half_of_the_second(has_second_begun)});
  origin.etags[1] = "\"b\"";
  EXPECT_THROW(fetch(origin), ObjectChanged);
}

}  // namespace
}  // namespace penstock::detail
