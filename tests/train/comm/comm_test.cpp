// Comm: collectives of ranks that are threads, and their errors when another rank is gone.
#include <gmock/gmock.h>

#include <latch>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/free_port.h"
#include "tests/train/group_test.h"

namespace penstock {
namespace {

using testing::AllOf, testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Networks, GroupTest, testing::ValuesIn(kMedia), name_of_medium);

TEST_P(GroupTest, AllReduceSumsInPlaceForEveryDtype) {
  for (const int world_size : {2, 3, 4})
    ranks(world_size, [&](Comm& comm) {
      for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kInt64}) {
        auto tensor = torch::arange(5).to(dtype) + comm.rank();
        comm.all_reduce_sum(tensor)->wait();
        const auto expected = torch::arange(5) * world_size + world_size * (world_size - 1) / 2;
        EXPECT_TRUE(tensor.equal(expected.to(dtype))) << tensor;
      }
    });
}

TEST_P(GroupTest, SeveralReductionsMayBeUnderWay) {
  ranks(3, [](Comm& comm) {
    std::vector<torch::Tensor> tensors;
    for (int i = 0; i < 4; ++i) tensors.push_back(torch::full({1000 * (i + 1)}, i + 1, torch::kFloat64));
    std::vector<std::unique_ptr<Comm::Work>> works;
    for (auto& tensor : tensors) works.push_back(comm.all_reduce_sum(tensor));
    for (const auto& work : works) work->wait();
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(tensors[i].eq(3 * (i + 1)).all().item<bool>());
  });
}

TEST_P(GroupTest, BroadcastGivesTheRootsTensor) {
  ranks(3, [](Comm& comm) {
    auto tensor = torch::full({2, 3}, comm.rank(), torch::kInt64);
    comm.broadcast(tensor, 2);
    EXPECT_TRUE(tensor.eq(2).all().item<bool>());
  });
}

TEST_P(GroupTest, AllGatherStacksInRankOrder) {
  for (const int world_size : {1, 3})
    ranks(world_size, [&](Comm& comm) {
      const auto all = comm.all_gather(torch::full({2}, comm.rank(), torch::kFloat32));
      const auto ranks = torch::arange(world_size, torch::kFloat32).unsqueeze(1).expand({world_size, 2});
      EXPECT_TRUE(all.equal(ranks)) << all;
      EXPECT_EQ(comm.all_gather(torch::tensor(7)).sizes(), torch::IntArrayRef({world_size}));
      comm.barrier();
    });
}

TEST_P(GroupTest, AllGatherIntoFillsThePlacesOfAllRanks) {
  for (const int world_size : {1, 3})
    ranks(world_size, [&](Comm& comm) {
      auto all = torch::zeros({2 * world_size}, torch::kFloat64);
      auto mine = all.narrow(0, 2 * comm.rank(), 2);
      mine.fill_(comm.rank() + 1);
      comm.all_gather_into(all, mine)->wait();
      EXPECT_TRUE(all.equal(torch::arange(2 * world_size).div(2, "floor").to(torch::kFloat64) + 1)) << all;
    });
}

TEST_P(GroupTest, GathersMayBeUnderWayWithOtherCollectives) {
  ranks(3, [](Comm& comm) {
    const auto mine = torch::full({50'000}, comm.rank() + 1, torch::kFloat64);
    auto one = torch::zeros({150'000}, torch::kFloat64), other = torch::zeros_like(one), sum = mine.clone();
    const auto first = comm.all_gather_into(one, mine), second = comm.all_reduce_sum(sum),
               third = comm.all_gather_into(other, 10 * mine);
    for (auto* work : {&third, &second, &first}) (*work)->wait();
    const auto expected = torch::arange(3, torch::kFloat64).add(1).repeat_interleave(50'000);
    EXPECT_TRUE(one.equal(expected) && other.equal(10 * expected));
    EXPECT_TRUE(sum.eq(6).all().item<bool>());
  });
}

TEST_P(GroupTest, ReduceScatterGivesEachRankTheSumOfItsRow) {
  for (const int world_size : {1, 2, 3})
    ranks(world_size, [&](Comm& comm) {
      auto all = torch::arange(4 * world_size, torch::kFloat64) * (comm.rank() + 1);
      auto mine = torch::zeros({4}, torch::kFloat64);
      comm.reduce_scatter_sum(mine, all)->wait();
      const int factor = world_size * (world_size + 1) / 2;
      EXPECT_TRUE(mine.equal((torch::arange(4, torch::kFloat64) + 4 * comm.rank()) * factor)) << mine;
    });
}

TEST_P(GroupTest, ACollectiveTellsHowLongItWasUnderWay) {
  constexpr int64_t kLateNs = 10'000'000;
  std::latch is_called(1);
  ranks(2, [&](Comm& comm) {
    auto sum = torch::ones({4}), all = torch::zeros({4}), mine = torch::ones({2});
    if (comm.rank() == 1) {
      is_called.wait();
      burn_cpu(kLateNs);  // for so long rank 0 is alone in the first one
    }
    const int64_t begin_ns = now_ns();
    std::vector<std::unique_ptr<Comm::Work>> works;
    works.push_back(comm.all_reduce_sum(sum));
    if (comm.rank() == 0) is_called.count_down();
    works.push_back(comm.reduce_scatter_sum(mine, all));
    works.push_back(comm.all_gather_into(all, mine));
    for (const auto& work : works) work->wait();
    double under_way_ms = 0;
    for (const auto& work : works) {
      while (!work->under_way_ms()) std::this_thread::yield();  // a thread of Gloo says when
      under_way_ms += *work->under_way_ms();
    }
    EXPECT_GT(under_way_ms, comm.rank() == 0 ? kLateNs * 1e-6 : 0);
    if (!GetParam().sim_net) {  // there it is the longer of two times
      EXPECT_LE(under_way_ms, ms_since(begin_ns));
    }
  });
}

TEST_P(GroupTest, MessagesOfTwoRanksAreToldApartByTheirTags) {
  ranks(3, [](Comm& comm) {
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    std::vector<torch::Tensor> sent{torch::full({5}, comm.rank(), torch::kFloat32),
                                    torch::full({70'000}, 10 + comm.rank(), torch::kFloat32)};
    std::vector<std::unique_ptr<Comm::Work>> works;
    for (int tag : {0, 1}) works.push_back(comm.send(sent[tag], next, tag, "a test"));
    auto large = torch::zeros({70'000}), small = torch::zeros({5});
    comm.receive(large, previous, 1, "a test")->wait();
    comm.receive(small, previous, 0, "a test")->wait();
    EXPECT_TRUE(large.eq(10 + previous).all().item<bool>());
    EXPECT_TRUE(small.eq(previous).all().item<bool>());
    for (const auto& work : works) work->wait();
  });
}

TEST_P(GroupTest, ASplitGroupCountsItsOwnRanks) {
  ranks(4, [](Comm& comm) {
    const auto part = comm.split(comm.rank() % 2);
    EXPECT_EQ(part->rank(), comm.rank() / 2);
    EXPECT_EQ(part->world_size(), 2);
    auto sum = torch::full({1}, comm.rank(), torch::kFloat32);
    part->all_reduce_sum(sum)->wait();
    EXPECT_EQ(sum.item<double>(), comm.rank() % 2 == 0 ? 2 : 4);  // 0 + 2, 1 + 3
    EXPECT_EQ(comm.split(comm.rank() == 0 ? 0 : 1)->world_size(), comm.rank() == 0 ? 1 : 3);
    const auto halves = comm.split(comm.rank() / 2);  // after a split in which one rank was alone
    auto half_sum = torch::full({1}, comm.rank(), torch::kFloat32);
    halves->all_reduce_sum(half_sum)->wait();
    EXPECT_EQ(half_sum.item<double>(), comm.rank() < 2 ? 1 : 5);  // 0 + 1, 2 + 3
    comm.barrier();
  });
}

TEST_P(GroupTest, ARankThatWaitsForAMessageSaysForWhich) {
  std::string message;
  std::latch failed(1);
  const auto body = [&](Comm& comm) {
    comm.at_step(comm.rank() == 1 ? 8 : 7);
    if (comm.rank() == 0) return failed.wait();
    auto tensor = torch::zeros({4});
    message =
        message_of(ErrorKind::kDevice, [&] { comm.receive(tensor, 0, 6, "the activation of micro-batch 3")->wait(); });
    failed.count_down();
  };
  ranks(2, body, /*step_seconds=*/1);
  EXPECT_THAT(message,
              HasSubstr("rank 1: " + backend() + ": waiting for the activation of micro-batch 3 from rank 0: "));
}

struct CountsDown {
  std::latch& latch;
  ~CountsDown() { latch.count_down(); }
};

/// Rank 1 builds its model for longer than a step may take. In a step it is waited for no longer than that, in the
/// whole run as in a part of it that was made before.
TEST_P(GroupTest, TheTimeOfAStepCountsFromTheFirstStepOn) {
  std::string message;
  std::latch rank_0_is_done(1);
  const auto body = [&](Comm& comm) {
    std::optional<CountsDown> release;  // also where rank 0 throws, so that rank 1 never waits for ever
    if (comm.rank() == 0) release.emplace(rank_0_is_done);
    const auto part = comm.split(0);
    const int64_t begin_ns = now_ns();
    while (comm.rank() == 1 && ms_since(begin_ns) < 1300) std::this_thread::yield();
    part->barrier();
    comm.at_step(1);
    if (comm.rank() == 1) return rank_0_is_done.wait();
    auto tensor = torch::zeros({4});
    const int64_t wait_begin_ns = now_ns();
    message = message_of(ErrorKind::kDevice, [&] { part->receive(tensor, 1, 6, "the labels")->wait(); });
    EXPECT_LT(ms_since(wait_begin_ns), 30'000);  // so it was not the limit of the meeting
  };
  run_ranks(2, body, /*step_seconds=*/1, GetParam().network, GetParam().sim_net, /*meeting_seconds=*/60);
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0: " + backend() + ": waiting for the labels from rank 1: "),
                             HasSubstr("within 1 s")));
}

TEST(CommTest, APeerThatIsGoneIsADeviceErrorThatNamesRankAndOperation) {
  std::string message;
  run_ranks(2, [&](Comm& comm) {
    if (comm.rank() == 1) return;
    message = message_of(ErrorKind::kDevice, [&] {
      // The kernel's buffers may still take the data of the first call before the end of the other rank shows.
      for (int i = 0; i < 3; ++i) {
        auto tensor = torch::zeros({1 << 16});
        comm.all_reduce_sum(tensor)->wait();
      }
    });
  });
  EXPECT_EQ(message, "rank 0: gloo: all_reduce: rank 1 has left; expected it to stay until all ranks are done");
}

TEST(CommTest, ARankThatIsTooSlowIsNamedWithItsStep) {
  std::string message;
  std::latch failed(1);
  const auto body = [&](Comm& comm) {
    comm.at_step(comm.rank() == 0 ? 57 : 56);
    if (comm.rank() == 1) return failed.wait();
    message = message_of(ErrorKind::kDevice, [&] { comm.barrier(); });
    failed.count_down();
  };
  run_ranks(2, body, /*step_seconds=*/1);
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0: gloo: barrier: rank 1 did not come past step 57 within 1 s, it is "),
                             HasSubstr("--timeout")));
}

TEST_P(GroupTest, WhatARankEndsWithReachesTheOthers) {
  std::vector<std::string> messages(3);
  ranks(3, [&](Comm& comm) {
    if (comm.rank() == 1) return comm.abort("shard 3: sample 35: crc32c is wrong");
    messages[static_cast<size_t>(comm.rank())] = message_of(ErrorKind::kDevice, [&] { comm.barrier(); });
  });
  for (const int rank : {0, 2})
    EXPECT_EQ(
        messages[static_cast<size_t>(rank)],
        concat("rank ", rank, ": ", backend(), ": barrier: rank 1 has ended: shard 3: sample 35: crc32c is wrong"));
}

/// Rank 1 waits for rank 3 in a part of the group, where they are 0 and 1.
TEST(CommTest, APartOfThreadsNamesTheRanksOfTheRunAndHearsWhyOneHasEnded) {
  run_ranks(
      4,
      [](Comm& comm) {
        const auto part = comm.split(comm.rank() % 2);
        if (comm.rank() == 3) comm.abort("no space on the disk");
        if (comm.rank() != 1) return;
        const auto message = message_of(ErrorKind::kDevice, [&] {
          auto tensor = torch::zeros({1});
          part->receive(tensor, 1, 0, "the labels")->wait();
        });
        EXPECT_EQ(message,
                  "rank 1: threads: waiting for the labels from rank 3: rank 3 has ended: no space on the disk");
      },
      /*step_seconds=*/60, Network::kThreads);
}

TEST(CommTest, BackendsAreChecked) {
  const auto make = [](const char* backend) {
    return message_of(ErrorKind::kConfig, [&] {
      make_c10d_comm(c10::make_intrusive<c10d::HashStore>(), {.rank = 0, .world_size = 2}, torch::kCPU, backend);
    });
  };
  EXPECT_THAT(make("glo"),
              AllOf(HasSubstr("--dist-backend"), HasSubstr("\"glo\""), HasSubstr("gloo"), HasSubstr("nccl")));
  EXPECT_THAT(make("nccl"), HasSubstr("--dist-backend is nccl on the CPU"));
}

}  // namespace
}  // namespace penstock
