// The simulated network: when messages are due, and that waits last until then. A wait may always last longer.
#include "train/comm/sim_net.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "core/clock.h"
#include "tests/train/rank_threads.h"

namespace penstock {
namespace {

using detail::Link;

TEST(LinkTest, MessagesQueueForTheirBytesAndNotForTheirDelays) {
  Link link({.delay_ns = 1000, .bytes_per_second = 1e9});
  const auto first = link.send(0, {500, 1});
  EXPECT_EQ(first.sent_ns, 500);
  EXPECT_EQ(first.due_ns, 1500);
  const auto second = link.send(100, {500, 3});
  EXPECT_EQ(second.sent_ns, 1000);
  EXPECT_EQ(second.due_ns, 4000);
  const auto third = link.send(1100, {0, 1});
  EXPECT_EQ(third.sent_ns, 1100);
  EXPECT_EQ(third.due_ns, 2100);  // overtakes the second, whose three delays follow one another
}

TEST(LinkTest, SharesAreThoseOfARing) {
  EXPECT_EQ(detail::all_reduce_share(1200, 4).bytes, 1800);
  EXPECT_EQ(detail::all_reduce_share(1200, 4).delays, 6);
  EXPECT_EQ(detail::gather_share(1200, 4).bytes, 900);
  EXPECT_EQ(detail::gather_share(1200, 4).delays, 3);
  EXPECT_EQ(detail::broadcast_share(1200, 4).bytes, 1200);
  EXPECT_EQ(detail::broadcast_share(1200, 4).delays, 3);
  EXPECT_EQ(detail::all_reduce_share(1200, 1).bytes, 0);
}

const NetworkModel kSlow{.delay_ns = 2'000'000, .bytes_per_second = 1e6};  // 2 ms and 1 ms per 1000 bytes
constexpr int64_t kMs = 1'000'000;

class SimNetTest : public testing::TestWithParam<Network> {
 protected:
  static void ranks(int world_size, const std::function<void(Comm&)>& body) {
    run_ranks(world_size, body, /*step_seconds=*/60, GetParam(), kSlow);
  }
};
INSTANTIATE_TEST_SUITE_P(Networks, SimNetTest, testing::Values(Network::kGloo, Network::kThreads),
                         [](const auto& info) { return info.param == Network::kGloo ? "Gloo" : "Threads"; });

torch::Tensor bytes(int64_t count) { return torch::zeros({count}, torch::kUInt8); }

TEST_P(SimNetTest, AMessageArrivesAfterItsBytesAndTheDelay) {
  std::atomic<int64_t> begin_ns = 0;
  ranks(2, [&](Comm& comm) {
    auto first = bytes(3000), second = bytes(1000);
    if (comm.rank() == 0) {
      begin_ns = now_ns();
      const auto sent = comm.send(first, 1, 5, "a test"), after = comm.send(second, 1, 6, "a test");
      sent->wait();
      EXPECT_GE(now_ns(), begin_ns + 3 * kMs);
      after->wait();
      EXPECT_GE(now_ns(), begin_ns + 4 * kMs);
    } else {
      comm.receive(second, 0, 6, "a test")->wait();
      EXPECT_GE(now_ns(), begin_ns + 6 * kMs);  // it leaves after the first one
      comm.receive(first, 0, 5, "a test")->wait();
    }
  });
}

TEST_P(SimNetTest, ACollectiveEndsWhenTheShareOfTheLastRankHasArrived) {
  std::latch is_called(1);
  std::atomic<int64_t> begin_ns = 0;
  ranks(2, [&](Comm& comm) {
    auto tensor = torch::ones({1000}, torch::kFloat32);
    if (comm.rank() == 1) {
      is_called.wait();
      burn_cpu(4 * kMs);  // so that rank 0's own share has almost arrived
      begin_ns = now_ns();
    }
    const auto work = comm.all_reduce_sum(tensor);
    if (comm.rank() == 0) is_called.count_down();
    work->wait();
    EXPECT_GE(now_ns(), begin_ns + 8 * kMs);  // 4000 bytes and two delays
    EXPECT_TRUE(tensor.eq(2).all().item<bool>());
  });
}

TEST_P(SimNetTest, EveryCollectiveTakesItsTime) {
  ranks(2, [&](Comm& comm) {
    auto all = bytes(4000), mine = bytes(2000);
    const auto takes = [](int64_t ms, const std::function<void()>& run) {
      const int64_t begin_ns = now_ns();
      run();
      EXPECT_GE(now_ns(), begin_ns + ms * kMs);
    };
    takes(4, [&] { comm.reduce_scatter_sum(mine, all)->wait(); });
    takes(6, [&] { comm.broadcast(all, 0); });
    takes(4, [&] { comm.all_gather(mine); });
    takes(4, [&] { comm.all_gather_into(all, mine)->wait(); });
    takes(4, [&] { comm.barrier(); });
  });
}

TEST_P(SimNetTest, TheGroupsOfARankShareItsLink) {
  ranks(2, [&](Comm& comm) {
    const auto part = comm.split(0);
    auto one = bytes(5000), other = bytes(5000);
    const int64_t begin_ns = now_ns();
    const auto first = comm.all_reduce_sum(one), second = part->all_reduce_sum(other);
    first->wait();
    second->wait();
    EXPECT_GE(now_ns(), begin_ns + 14 * kMs);  // 2 x 5000 bytes, two delays
  });
}

TEST_P(SimNetTest, CollectivesThatOverlapAreUnderWayOnce) {
  ranks(2, [&](Comm& comm) {
    auto one = bytes(5000), other = bytes(5000);
    const int64_t begin_ns = now_ns();
    const auto first = comm.all_reduce_sum(one), second = comm.all_reduce_sum(other);
    EXPECT_FALSE(first->under_way_ms());
    first->wait();
    second->wait();
    const double all_ms = ms_since(begin_ns);
    if (GetParam() == Network::kGloo) return;  // its own times are added by another thread
    const double under_way_ms = *first->under_way_ms() + *second->under_way_ms();
    EXPECT_GE(under_way_ms, 14);
    EXPECT_LE(under_way_ms, all_ms);
  });
}

TEST(SimNetAloneTest, OneRankHasNobodyToWaitFor) {
  EXPECT_EQ(make_sim_net(make_self_comm(), kSlow)->backend(), "self");
}

}  // namespace
}  // namespace penstock
