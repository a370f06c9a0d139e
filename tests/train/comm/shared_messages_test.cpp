// Messages in shared memory: any order, more than there is room for, and ranks that are late or gone.
#include <gmock/gmock.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "train/comm/shared_channel.h"

namespace penstock {
namespace {

using detail::SharedChannel;
using testing::AllOf, testing::HasSubstr;

torch::Tensor numbers(int64_t count, float first) { return torch::arange(count).to(torch::kFloat32).add_(first); }

TEST(SharedMessagesTest, ATagTellsMessagesApartWhateverTheOrderInWhichTheyAreAskedFor) {
  std::vector<torch::Tensor> got;
  run_sharing(2, [&](Comm& comm) {
    constexpr int kCount = 4;
    if (comm.rank() == 0)
      for (int tag = 0; tag < kCount; ++tag)
        comm.send(numbers(tag * 1000, static_cast<float>(tag)), 1, tag, "a")->wait();
    else
      for (int tag = kCount; tag-- > 0;) {
        auto tensor = torch::zeros({tag * 1000});
        comm.receive(tensor, 0, tag, "a")->wait();
        got.push_back(tensor);
      }
  });
  ASSERT_EQ(got.size(), 4U);
  for (int tag = 0; tag < 4; ++tag)
    EXPECT_TRUE(got[static_cast<size_t>(3 - tag)].equal(numbers(tag * 1000, static_cast<float>(tag)))) << tag;
}

/// 60 messages of 4 MB are more than a channel holds, and both ranks send theirs before they receive.
TEST(SharedMessagesTest, SendsThatFindNoRoomGoOnWhileTheRankWaitsForOthers) {
  constexpr int kCount = 60;
  constexpr int64_t kNumbers = 1 << 20;
  static_assert(kCount * kNumbers * sizeof(float) > SharedChannel::kMemory);
  std::vector<int> right(2, 0);
  run_sharing(2, [&](Comm& comm) {
    const int peer = 1 - comm.rank();
    std::vector<std::unique_ptr<Comm::Work>> sends;
    for (int i = 0; i < kCount; ++i)
      sends.push_back(comm.send(torch::full({kNumbers}, 100.0F * static_cast<float>(comm.rank()) + i), peer, 0, "a"));
    for (int i = 0; i < kCount; ++i) {
      auto tensor = torch::zeros({kNumbers});
      comm.receive(tensor, peer, 0, "a")->wait();
      right[static_cast<size_t>(comm.rank())] += tensor.eq(100.0F * static_cast<float>(peer) + i).all().item<bool>();
    }
    for (auto& send : sends) send->wait();
    comm.barrier();
  });
  EXPECT_EQ(right, std::vector<int>({kCount, kCount}));
}

/// Gloo carries what is too long for the channel. Nobody but the thread of the sender can then send the rest.
TEST(SharedMessagesTest, SendsThatFindNoRoomGoOnWhileTheRankWaitsForGloo) {
  constexpr int kCount = 20;
  constexpr int64_t kNumbers = 1 << 20;
  const auto too_long = torch::zeros({static_cast<int64_t>(SharedChannel::kLongest / 4) + 1});
  int right = 0;
  const auto body = [&](Comm& comm) {
    auto last = too_long.clone();
    EXPECT_THAT(comm.backend(), HasSubstr("shared"));
    if (comm.rank() == 1) {
      for (int i = 0; i < kCount; ++i) {
        auto tensor = torch::zeros({kNumbers});
        comm.receive(tensor, 0, 0, "a")->wait();
        right += tensor.eq(i).all().item<bool>();
      }
      return comm.send(last, 0, 1, "the last")->wait();
    }
    std::vector<std::unique_ptr<Comm::Work>> sends;
    for (int i = 0; i < kCount; ++i) sends.push_back(comm.send(torch::full({kNumbers}, float(i)), 1, 0, "a"));
    comm.receive(last, 1, 1, "the last")->wait();
    for (auto& send : sends) send->wait();
  };
  run_sharing(2, body, /*step_seconds=*/20);
  EXPECT_EQ(right, kCount);
}

TEST(SharedMessagesTest, MessagesTooLongForTheChannelArriveToo) {
  bool is_right = false;
  run_sharing(2, [&](Comm& comm) {
    auto tensor = numbers(static_cast<int64_t>(SharedChannel::kLongest / 4) + 1, 0);
    if (comm.rank() == 0) return comm.send(tensor, 1, 0, "a")->wait();
    auto got = torch::zeros_like(tensor);
    comm.receive(got, 0, 0, "a")->wait();
    is_right = got.equal(tensor);
  });
  EXPECT_TRUE(is_right);
}

TEST(SharedMessagesTest, WhatWasSentArrivesAlthoughTheSenderHasLeft) {
  std::string message;
  torch::Tensor got = torch::zeros({100});
  run_sharing(2, [&](Comm& comm) {
    if (comm.rank() == 0) return comm.send(numbers(100, 7), 1, 3, "a gradient")->wait();
    comm.receive(got, 0, 3, "a gradient")->wait();
    auto none = torch::zeros({100});
    message =
        message_of(ErrorKind::kDevice, [&] { comm.receive(none, 0, 4, "the gradient of micro-batch 4")->wait(); });
  });
  EXPECT_TRUE(got.equal(numbers(100, 7)));
  EXPECT_THAT(message, HasSubstr("rank 1: gloo: waiting for the gradient of micro-batch 4 from rank 0: rank 0 "));
}

/// In a part, ranks are named as in the run.
TEST(SharedMessagesTest, ARankThatIsTooSlowIsNamedWithItsStep) {
  std::string message;
  std::latch failed(1);
  const auto body = [&](Comm& comm) {
    const auto part = comm.split(comm.rank() / 2);
    comm.at_step(comm.rank() == 2 ? 57 : 56);
    if (comm.rank() != 2) return failed.wait();
    auto tensor = torch::zeros({10});
    message = message_of(ErrorKind::kDevice, [&] { part->receive(tensor, 1, 0, "an activation")->wait(); });
    failed.count_down();
  };
  run_sharing(4, body, /*step_seconds=*/1);
  EXPECT_THAT(message, AllOf(HasSubstr("rank 2: gloo: waiting for an activation from rank 3: rank 3"),
                             HasSubstr("within 1 s"), HasSubstr("--timeout")));
}

/// Both ends of a channel in memory of one process.
class SharedChannelTest : public testing::Test {
 protected:
  std::vector<std::byte> filled(size_t count, int value) { return std::vector<std::byte>(count, std::byte(value)); }

  std::unique_ptr<std::byte[]> memory_ = std::make_unique<std::byte[]>(SharedChannel::kMemory + 64);
  SharedChannel channel_{reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory_.get()) + 63) / 64 * 64)};
};

TEST_F(SharedChannelTest, MessagesOfAllSizesComeInOrderOverManyRounds) {
  uint32_t state = 1;
  int written = 0, read = 0;
  size_t waiting = 0;
  while (read < 2000) {
    state = state * 1664525 + 1013904223;
    const size_t size = (state >> 8) % 300'000;
    const auto message = filled(size, written % 251);
    if (waiting < 90 && channel_.write(written, message)) {
      ++written, ++waiting;
      continue;
    }
    const auto front = channel_.front();
    ASSERT_TRUE(front);
    ASSERT_EQ(front->tag, read);
    if (!front->bytes.empty()) {
      ASSERT_EQ(front->bytes.front(), std::byte(read % 251));
      ASSERT_EQ(front->bytes.back(), std::byte(read % 251));
    }
    channel_.pop();
    ++read, --waiting;
  }
}

TEST_F(SharedChannelTest, AFullChannelTakesMoreWhenSomethingWasRead) {
  const auto message = filled(SharedChannel::kLongest / 2, 1);
  int count = 0;
  while (channel_.write(count, message)) ++count;
  EXPECT_EQ(count, 4);
  EXPECT_TRUE(channel_.front());
  EXPECT_TRUE(channel_.pop()) << "the writer waits for room";
  EXPECT_TRUE(channel_.write(count, message));
  EXPECT_TRUE(channel_.front());
  EXPECT_FALSE(channel_.pop()) << "nobody waits any more";
}

TEST_F(SharedChannelTest, TheLongestFitsWhereverTheLastOneEnded) {
  for (const size_t less : {0, 64, 128, 4096}) {
    ASSERT_TRUE(channel_.write(0, filled(SharedChannel::kLongest - less, 1))) << less;
    ASSERT_TRUE(channel_.front());
    channel_.pop();
    ASSERT_TRUE(channel_.write(1, filled(SharedChannel::kLongest, 2))) << less;
    ASSERT_TRUE(channel_.front());
    channel_.pop();
  }
}

TEST_F(SharedChannelTest, AnEmptyChannelBeginsAnew) {
  ASSERT_TRUE(channel_.write(0, filled(SharedChannel::kLongest, 1)));
  const auto* first = channel_.front()->bytes.data();
  channel_.pop();
  ASSERT_TRUE(channel_.write(1, filled(10'000, 2)));
  EXPECT_EQ(channel_.front()->bytes.data(), first);
}

/// A writer that goes back must not wait until the reader has passed over what it left free at the end: that one may
/// wait for another message of it, which comes another way.
TEST_F(SharedChannelTest, AfterItWentBackMuchFindsRoomBeforeAnythingIsRead) {
  for (const size_t size : {8, 60'000})
    for (int before = 1; before < 40; ++before) {
      for (int i = 0; i < before; ++i) {
        ASSERT_TRUE(channel_.write(0, filled(size, 1)));
        ASSERT_TRUE(channel_.front());
        channel_.pop();
      }
      for (int i = 0; i < 16; ++i) ASSERT_TRUE(channel_.write(1, filled(size, 1))) << before << ", message " << i;
      for (int i = 0; i < 16; ++i) {
        ASSERT_TRUE(channel_.front());
        channel_.pop();
      }
    }
}

TEST_F(SharedChannelTest, AReaderThatIsAlwaysOneMessageBehindSeesFewPages) {
  const auto message = filled(10'000, 1);
  ASSERT_TRUE(channel_.write(0, message));
  const auto* first = channel_.front()->bytes.data();
  ptrdiff_t farthest = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(channel_.write(0, message));
    farthest = std::max(farthest, channel_.front()->bytes.data() - first);
    channel_.pop();
  }
  EXPECT_LT(farthest, (16 << 16) + 20 * 10'100);
}

}  // namespace
}  // namespace penstock
