// StageLink: what one rank sends is what its neighbour is ready for.
#include "train/parallel/pipeline/stage_link.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/allocation_peak.h"
#include "tests/train/rank_threads.h"

namespace penstock::detail {
namespace {

/// Gloo ends the process of a rank that gets a message of another length than it waits for.
TEST(StageLinkTest, AnActivationOfOtherSizesIsRefusedBeforeItIsSent) {
  run_ranks(2, [](Comm& comm) {
    Recorder recorder;
    StageLink link(comm, Placement::loop(2, 1), torch::kCPU, recorder);
    if (comm.rank() == 1) {
      EXPECT_EQ(link.receive_activation(1, 0, 2).sizes(), (std::vector<int64_t>{2, 3, 4}));
      EXPECT_EQ(link.receive_activation(1, 1, 5).sizes(), (std::vector<int64_t>{5, 3, 4}));
      return;
    }
    link.send_activation(0, 0, torch::ones({2, 3, 4}));
    link.send_activation(0, 1, torch::ones({5, 3, 4}));
    for (const auto& other : {torch::ones({2, 3, 5}), torch::ones({2, 12}), torch::ones({2, 3, 4}, torch::kFloat64)}) {
      try {
        link.send_activation(0, 2, other);
        ADD_FAILURE() << other.sizes();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kBug);
        EXPECT_THAT(error.what(), testing::StartsWith("the activation of micro-batch 2 has rows of "));
        EXPECT_THAT(error.what(), testing::HasSubstr("the first one had Float [3, 4]; expected "));
      }
    }
    link.finish();
  });
}

TEST(StageLinkTest, AnActivationIsHeldUntilItsGradientHasCome) {
  run_ranks(2, [](Comm& comm) {
    Recorder recorder;
    StageLink link(comm, Placement::loop(2, 1), torch::kCPU, recorder);
    if (comm.rank() == 1) {
      link.send_gradient(1, 0, link.receive_activation(1, 0, 2));
      link.finish();
      return;
    }
    const auto activation = torch::ones({2, 3});
    link.send_activation(0, 0, activation);
    EXPECT_GT(activation.storage().use_count(), 1U);
    link.receive_gradient(0, 0, activation);
    EXPECT_EQ(activation.storage().use_count(), 1U);
    link.finish();
  });
}

/// Without a limit all eight would stay until finish().
TEST(StageLinkTest, OneGradientIsOnItsWayAtATime) {
  constexpr int kGradients = 8;
  constexpr int64_t kElements = 100'000;
  run_ranks(2, [](Comm& comm) {
    Recorder recorder;
    StageLink link(comm, Placement::loop(2, 1), torch::kCPU, recorder);
    const auto like = torch::ones({1, kElements});
    if (comm.rank() == 0) {
      for (int i = 0; i < kGradients; ++i) EXPECT_EQ(link.receive_gradient(0, i, like)[0][0].item<float>(), i);
    } else {
      AllocationPeak peak;
      peak.count([&] {
        for (int i = 0; i < kGradients; ++i)
          link.send_gradient(1, i, torch::full({1, kElements}, static_cast<float>(i)));
      });
      EXPECT_LE(peak.bytes(), 2 * kElements * 4 + 10'000);
    }
    link.finish();
  });
}

/// At the turn of a V the next part is at the same rank: the tensor is handed over, without a copy and without a peer.
TEST(StageLinkTest, WhatStaysAtARankIsHandedOver) {
  const auto comm = make_self_comm();
  Recorder recorder;
  StageLink link(*comm, Placement::v(1), torch::kCPU, recorder);
  const auto output = torch::ones({2, 3}).requires_grad_() * 2;
  link.send_activation(0, 5, output);
  const auto input = link.receive_activation(1, 5, 2);
  EXPECT_EQ(input.data_ptr(), output.data_ptr());
  EXPECT_FALSE(input.requires_grad()) << "backward would run through both parts at once";
  const auto gradient = torch::full({2, 3}, 7.0F);
  link.send_gradient(1, 5, gradient);
  EXPECT_EQ(link.receive_gradient(0, 5, output).data_ptr(), gradient.data_ptr());
  EXPECT_EQ(link.activation_bytes(), 0);
  link.finish();
}

/// Rank 0 takes them in the opposite order: a send that waited for the one before would wait for ever.
TEST(StageLinkTest, WithGradientsKeptNoSendWaits) {
  run_ranks(2, [](Comm& comm) {
    Recorder recorder;
    StageLink link(comm, Placement::loop(2, 1), torch::kCPU, recorder, 0, 0, /*keeps_gradients=*/true);
    const auto like = torch::ones({1, 100'000});
    if (comm.rank() == 0)
      for (const int m : {2, 1, 0}) EXPECT_EQ(link.receive_gradient(0, m, like)[0][0].item<int>(), m);
    else
      for (const int m : {0, 1, 2}) link.send_gradient(1, m, torch::full({1, 100'000}, static_cast<float>(m)));
    link.finish();
  });
}

}  // namespace
}  // namespace penstock::detail
