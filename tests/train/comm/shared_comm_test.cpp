// Shared memory of ranks: what happens when one of them is late or gone, and where the system gives no such memory.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <string>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "train/comm/shared_memory.h"

namespace penstock {
namespace {

using detail::SharedMemory;
using testing::AllOf, testing::HasSubstr;

std::string failure_of_sum(Comm& comm, torch::Tensor& tensor) {
  return message_of(ErrorKind::kDevice, [&] { comm.all_reduce_sum(tensor)->wait(); });
}

TEST(SharedCommTest, ARankThatHasLeftIsNamedAndLaterSumsFailToo) {
  std::string message, next;
  run_sharing(3, [&](Comm& comm) {
    auto tensor = comm.allocate(100'000, torch::kFloat32);
    comm.all_reduce_sum(tensor)->wait();
    if (comm.rank() == 1) return;
    const auto failure = failure_of_sum(comm, tensor);
    if (comm.rank() == 0) {
      message = failure;
      next = failure_of_sum(comm, tensor);
    }
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0: gloo: all_reduce: rank"), HasSubstr("1"), HasSubstr("left; expected")));
  EXPECT_THAT(next, HasSubstr("left; expected"));
}

TEST(SharedCommTest, WhatARankEndsWithReachesThoseThatAdd) {
  std::string message;
  run_sharing(2, [&](Comm& comm) {
    auto tensor = comm.allocate(1000, torch::kFloat32);
    if (comm.rank() == 1) return comm.abort("shard 3: sample 35: crc32c is wrong");
    message = failure_of_sum(comm, tensor);
  });
  EXPECT_EQ(message, "rank 0: gloo: all_reduce: rank 1 has ended: shard 3: sample 35: crc32c is wrong");
}

TEST(SharedCommTest, ARankThatIsTooSlowIsNamedWithItsStep) {
  std::string message;
  std::latch failed(1);
  const auto body = [&](Comm& comm) {
    auto tensor = comm.allocate(1000, torch::kFloat32);
    comm.at_step(comm.rank() == 0 ? 57 : 56);
    if (comm.rank() == 1) return failed.wait();
    message = failure_of_sum(comm, tensor);
    failed.count_down();
  };
  run_sharing(2, body, /*step_seconds=*/1);
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0: gloo: all_reduce: rank 1 did not come past step 57 within 1 s, it is "),
                             HasSubstr("--timeout")));
}

/// A communicator ends at once, though a sum that it has started waits for a rank.
TEST(SharedCommTest, ASumThatNobodyWaitsForKeepsNobody) {
  std::latch has_ended(1);
  run_sharing(2, [&](Comm& comm) {
    const auto part = comm.split(0);
    auto tensor = part->allocate(1000, torch::kFloat32);
    if (comm.rank() == 0) {
      auto work = part->all_reduce_sum(tensor);
    } else {
      has_ended.wait();
    }
    if (comm.rank() == 0) has_ended.count_down();
  });
}

/// The limit of files counts for this memory too, and Linux kills who goes over it.
/// Ranks add a share of the elements each. The shares are whole cache lines, and the last one has the rest.
TEST(SharedCommTest, EveryElementIsTheSumOfAllRanksWhereverTheirSharesMeet) {
  for (const int world_size : {2, 3})
    run_sharing(world_size, [&](Comm& comm) {
      for (const int64_t count : {1, 63, 64, 65, 127, 129, 1000, 40'001}) {
        auto tensor = comm.allocate(count, torch::kFloat64);
        const auto numbers = torch::arange(count, torch::kFloat64);
        tensor.copy_(numbers * (comm.rank() + 1));
        comm.all_reduce_sum(tensor)->wait();
        EXPECT_TRUE(tensor.equal(numbers * (world_size * (world_size + 1) / 2)))
            << count << ", " << world_size << " ranks";
      }
    });
}

TEST(SharedCommTest, WithoutSuchMemoryRanksSumWithoutIt) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 100'000, .rlim_max = before.rlim_max};
  std::string backend;
  run_sharing(2, [&](Comm& comm) {
    if (comm.rank() == 0) backend = comm.backend();
    comm.barrier();
    if (comm.rank() == 0) {
      EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    }
    comm.barrier();
    auto large = comm.allocate(50'000, torch::kFloat32), little = comm.allocate(20'000, torch::kFloat32);
    comm.barrier();
    if (comm.rank() == 0) {
      EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    }
    for (auto* tensor : {&large, &little}) {
      tensor->fill_(comm.rank() + 1);
      comm.all_reduce_sum(*tensor)->wait();
      EXPECT_TRUE(tensor->eq(3).all().item<bool>());
    }
  });
  EXPECT_EQ(backend, "gloo and shared memory");
}

TEST(SharedMemoryTest, AnotherProcessSeesWhatIsWrittenAndThatASeatIsTakenUntilItsHolderIsKilled) {
  const auto memory = SharedMemory::make(4096);
  ASSERT_TRUE(memory);
  auto& word = *reinterpret_cast<std::atomic<uint32_t>*>(memory->data());
  const pid_t maker = getpid();
  const pid_t child = fork();
  if (child == 0) {  // by the way of any process, though it has inherited the memory
    const auto seen = SharedMemory::of_process(maker, memory->file(), 4096);
    if (!seen || !seen->take_seat(3)) _exit(1);
    reinterpret_cast<std::atomic<uint32_t>*>(seen->data())->store(7);
    detail::wake_all(*reinterpret_cast<std::atomic<uint32_t>*>(seen->data()));
    for (;;) pause();
  }
  for (int i = 0; i < 100 && word.load() == 0; ++i) detail::wait_while(word, 0, std::chrono::milliseconds(100));
  EXPECT_EQ(word.load(), 7u);
  EXPECT_TRUE(memory->is_taken(3));
  EXPECT_FALSE(memory->is_taken(2));
  EXPECT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(memory->is_taken(3));
}

TEST(SharedMemoryTest, WhatIsNotThereOrOfAnotherSizeIsNotTaken) {
  const auto memory = SharedMemory::make(4096);
  ASSERT_TRUE(memory);
  EXPECT_FALSE(SharedMemory::of_process(getpid(), memory->file(), 8192));
  EXPECT_FALSE(SharedMemory::of_process(getpid(), 100'000, 4096));
  EXPECT_FALSE(SharedMemory::of_process(1 << 30, memory->file(), 4096));
}

}  // namespace
}  // namespace penstock
