// Comm::allocate(): collectives on its tensors, and the order in which they add.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>

#include "tests/train/group_test.h"
#include "train/tensor/ordered_sum.h"

namespace penstock {
namespace {

using AllocatedTest = GroupTest;
INSTANTIATE_TEST_SUITE_P(Networks, AllocatedTest, testing::ValuesIn(kMedia), name_of_medium);

TEST_P(AllocatedTest, TensorsAreSummedForEveryDtype) {
  for (const int world_size : {2, 3, 4})
    ranks(world_size, [&](Comm& comm) {
      for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kHalf, torch::kInt64})
        for (const int64_t count : {1, 63, 1000, 100'003}) {
          auto tensor = comm.allocate(count, torch::dtype(dtype));
          EXPECT_TRUE(tensor.eq(0).all().item<bool>());
          const auto numbers = torch::arange(count).remainder(50);
          for (int round = 1; round <= 2; ++round) {  // the second one of the same memory
            tensor.copy_(numbers * (comm.rank() + round));
            comm.all_reduce_sum(tensor)->wait();
            const int factor = world_size * (world_size - 1) / 2 + world_size * round;
            EXPECT_TRUE(tensor.equal((numbers * factor).to(dtype))) << dtype << ", " << count;
          }
        }
    });
}

/// What is gathered may lie in its place already, or elsewhere.
TEST_P(AllocatedTest, TensorsAreGathered) {
  for (const int world_size : {2, 3})
    ranks(world_size, [&](Comm& comm) {
      constexpr int64_t kPart = 70'001;
      auto all = comm.allocate(kPart * world_size, torch::kFloat32);
      const auto place = all.narrow(0, kPart * comm.rank(), kPart);
      const auto expected = torch::arange(kPart * world_size).div(kPart, "floor").to(torch::kFloat32);
      place.fill_(comm.rank());
      comm.all_gather_into(all, place)->wait();
      EXPECT_TRUE(all.equal(expected));
      comm.all_gather_into(all, torch::full({kPart}, 10.0F * static_cast<float>(comm.rank())))->wait();
      EXPECT_TRUE(all.equal(10 * expected));
    });
}

/// Also a view of an allocated tensor is summed, and a tensor in memory that an allocated one has given back.
TEST_P(AllocatedTest, TensorsGoTogetherWithOthers) {
  ranks(3, [](Comm& comm) {
    auto one = comm.allocate(50'000, torch::kFloat64), other = comm.allocate(20, torch::kFloat64);
    auto plain = torch::full({300}, 2.0), part = one.narrow(0, 100, 50);
    one.fill_(1);
    other.fill_(comm.rank());
    std::vector<std::unique_ptr<Comm::Work>> works;
    works.push_back(comm.all_reduce_sum(one));
    works.push_back(comm.all_reduce_sum(plain));
    works.push_back(comm.all_reduce_sum(other));
    for (const auto& work : works) work->wait();
    comm.all_reduce_sum(part)->wait();
    EXPECT_TRUE(one.slice(0, 0, 100).eq(3).all().item<bool>() && part.eq(9).all().item<bool>());
    EXPECT_TRUE(plain.eq(6).all().item<bool>() && other.eq(3).all().item<bool>());
    one.reset();
    part.reset();
    auto next = torch::full({50'000}, 1.0, torch::kFloat64);
    comm.all_reduce_sum(next)->wait();
    EXPECT_TRUE(next.eq(3).all().item<bool>());
  });
}

TEST_P(AllocatedTest, PartsHaveTensorsOfTheirOwn) {
  ranks(4, [](Comm& comm) {
    const auto part = comm.split(comm.rank() % 2), half = comm.split(comm.rank() / 2);
    auto sum = part->allocate(1000, torch::kFloat32), other = half->allocate(1000, torch::kFloat32);
    sum.fill_(comm.rank());
    other.fill_(comm.rank());
    const auto first = part->all_reduce_sum(sum), second = half->all_reduce_sum(other);
    second->wait();
    first->wait();
    EXPECT_TRUE(sum.eq(comm.rank() % 2 == 0 ? 2 : 4).all().item<bool>());
    EXPECT_TRUE(other.eq(comm.rank() < 2 ? 1 : 5).all().item<bool>());
    comm.barrier();
  });
}

/// Numbers of many magnitudes, whose sum in another order has other last digits.
TEST_P(AllocatedTest, WhatAddsByHalvesHasTheBitsOfTheTree) {
  for (const int world_size : {2, 4, 8})
    ranks(world_size, [&](Comm& comm) {
      const auto row = [](int rank) {
        const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(rank));
        return torch::randn({40'000}, generator).exp();
      };
      auto tensor = comm.allocate(40'000, torch::kFloat32);
      const bool is_pairwise = comm.adds_pairwise(tensor);
      EXPECT_EQ(is_pairwise, world_size == 2 || GetParam().network != Network::kGloo);
      detail::PairwiseSum tree(world_size);
      for (int rank = 0; rank < world_size; ++rank) tree.put(rank, row(rank));
      tensor.copy_(row(comm.rank()));
      comm.all_reduce_sum(tensor)->wait();
      const auto sum = tree.take();
      EXPECT_TRUE(is_pairwise ? tensor.equal(sum) : tensor.allclose(sum));
    });
}

}  // namespace
}  // namespace penstock
