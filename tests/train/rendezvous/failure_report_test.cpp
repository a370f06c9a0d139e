// FailureReport: how long a rank waits for connections, and what it says when there are none.
#include "train/rendezvous/failure_report.h"

#include <gmock/gmock.h>

#include <future>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/testing.h"

namespace penstock::detail {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not;

using Backend = c10::intrusive_ptr<c10d::Backend>;

Rendezvous rank_of_two(int rank, int seconds) {
  return {.rank = rank, .world_size = 2, .meeting_seconds = seconds, .step_seconds = seconds};
}

const std::string kAddresses = "rank 0 is at 10.0.0.1, rank 1 at 10.0.0.2";

/// Keeps a thread that connects as long as the test runs.
class FailureReportTest : public testing::Test {
 protected:
  ~FailureReportTest() override { never_.set_value(); }
  std::function<Backend()> hangs() {
    return [never = never_.get_future().share()] {
      never.wait();
      return Backend();
    };
  }
  std::promise<void> never_;
};

TEST_F(FailureReportTest, ConnectionsThatDoNotComeEndWithTheTimeOutAndNameTheAddresses) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  FailureReport first(store, rank_of_two(0, 1), "gloo");
  const Heartbeat second(store, 1, 2);  // alive
  EXPECT_THAT(message_of(ErrorKind::kDevice, [&] { first.connect(hangs(), kAddresses); }),
              AllOf(HasSubstr("rank 0: gloo: connect: timed out after 1 s; " + kAddresses + "; expected addresses at"),
                    HasSubstr("--interface NAME"), Not(HasSubstr("has ended"))));
}

TEST_F(FailureReportTest, AWaitForConnectionsEndsWithTheFirstRankThatFails) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  FailureReport first(store, rank_of_two(0, 3600), "gloo"), second(store, rank_of_two(1, 3600), "gloo");
  const auto fails = []() -> Backend { throw std::runtime_error("Network is unreachable"); };
  std::thread other([&] {
    EXPECT_THAT(message_of(ErrorKind::kDevice, [&] { second.connect(fails, kAddresses); }),
                HasSubstr("rank 1: gloo: connect: Network is unreachable; " + kAddresses));
  });
  EXPECT_THAT(message_of(ErrorKind::kDevice, [&] { first.connect(hangs(), kAddresses); }),
              HasSubstr("rank 0: gloo: connect: rank 1 has ended: rank 1: gloo: connect: Network is unreachable; "));
  other.join();
}

TEST_F(FailureReportTest, AWaitForConnectionsEndsWhenARankHasLeft) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  static_cast<c10d::Store&>(*store).set("roll/1", std::string("left"));
  FailureReport first(store, rank_of_two(0, 3600), "gloo");
  EXPECT_THAT(message_of(ErrorKind::kDevice, [&] { first.connect(hangs(), kAddresses); }),
              HasSubstr("rank 0: gloo: connect: rank 1 has left"));
}

}  // namespace
}  // namespace penstock::detail
