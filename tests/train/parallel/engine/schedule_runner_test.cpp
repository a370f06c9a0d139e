// ScheduleRunner: recomputation to the bit, and as many activations alive as the schedule says; backward in two halves.
#include "train/parallel/engine/schedule_runner.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <fstream>

#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/sync/backward_hooks.h"

namespace penstock::detail {
namespace {

/// All tensors of rank 0 after some steps in float32.
StateDict train(const std::string& mode, int world_size, const std::string& arch, const ModelShape& shape,
                int64_t step_count) {
  auto samples = random_samples(8 * step_count, shape, 3);
  samples.images = samples.images.to(torch::kFloat32);
  StateDict state;
  run_ranks(
      world_size,
      [&](Comm& comm) {
        StrategyHarness one(mode, make(arch, shape), comm, kSgd, torch::kFloat32);
        comm.barrier();  // a forward that is run again sets the random numbers of which other ranks build their models
        for (int64_t i = 0; i < step_count; ++i) one.strategy->step(one.part(samples, 8, i));
        auto all = one.strategy->state();
        if (comm.rank() == 0) state = std::move(all);
      },
      /*step_seconds=*/60, Network::kThreads);
  return state;
}

TEST(RecomputeTest, GivesTheBitsOfNever) {
  for (const std::string schedule : {"gpipe", "1f1b", "zero-bubble"}) {
    const auto mode = [&](const char* recompute) {
      return "pipeline(schedule=" + schedule + ",recompute=" + recompute + ")";
    };
    const auto never = train(mode("never"), 3, "lenet", kGrey, 2);
    for (const char* recompute : {"except-last", "always"})
      EXPECT_EQ(relative_difference(never, train(mode(recompute), 3, "lenet", kGrey, 2)), 0) << mode(recompute);
  }
}

/// BatchNorm's running statistics are changed once per micro-batch, in the order of the first forwards; gpipe's
/// backwards run in the opposite order.
TEST(RecomputeTest, GivesTheBitsOfNeverWithBatchNormToo) {
  const auto never = train("pipeline(schedule=gpipe)", 2, "resnet18", kSmallPhotos, 2);
  ASSERT_TRUE(never.contains("model.layer4.1.bn2.running_var"));
  for (const std::string recompute : {"except-last", "always"})
    EXPECT_EQ(relative_difference(
                  never, train("pipeline(schedule=gpipe,recompute=" + recompute + ")", 2, "resnet18", kSmallPhotos, 2)),
              0)
        << recompute;
}

class TinyDropout final : public Model {
 public:
  TinyDropout() {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(784, 10));
    add_block("all", {"fc"},
              [fc](const torch::Tensor& x) mutable { return torch::dropout(fc(x.flatten(1)), 0.5, /*train=*/true); });
  }
};

TEST(RecomputeTest, DropoutDrawsTheSameNumbersAgain) {
  const auto samples = random_samples(16, kGrey, 4);
  const auto comm = make_self_comm();
  StateDict states[2];
  for (const bool recomputes : {false, true}) {
    at::manual_seed(1);
    StrategyHarness one(recomputes ? "pipeline(micro-batches=2,schedule=gpipe,recompute=always)"
                                   : "pipeline(micro-batches=2,schedule=gpipe)",
                        std::make_unique<TinyDropout>(), *comm, kSgd);
    for (int64_t i = 0; i < 2; ++i) one.strategy->step(one.part(samples, 8, i));
    states[recomputes ? 1 : 0] = one.strategy->state();
  }
  EXPECT_EQ(relative_difference(states[0], states[1]), 0);
}

/// gpipe adds the gradients of the last micro-batch first, all others those of the first one.
TEST(ScheduleRunnerTest, SchedulesDifferInTheOrderInWhichTheyAddGradientsAlone) {
  const auto of = [](const std::string& schedule) {
    return train("pipeline(schedule=" + schedule + ")", 2, "lenet", kGrey, 2);
  };
  const TemporaryFolder folder("orders");
  const auto file = (folder.path() / "fifo.csv").string();
  std::ofstream(file) << "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n";
  const auto expected = of("1f1b");
  for (const std::string& schedule : {file, std::string("interleaved"), std::string("zb-v"), std::string("dualpipe-v")})
    EXPECT_EQ(relative_difference(expected, of(schedule)), 0) << schedule;
  EXPECT_GT(relative_difference(expected, of("gpipe")), 0);
}

struct AliveCase {
  std::string keys;
  SchedulePlan plan;
};

TEST(ScheduleRunnerTest, NoMoreActivationsAreAliveThanTheScheduleSays) {
  const auto samples = random_samples(8, kGrey, 4);
  for (const auto& [keys, plan] :
       {AliveCase{"schedule=gpipe", {.name = "gpipe", .ranks = 2, .micro_batches = 8}},
        AliveCase{"schedule=1f1b", {.name = "1f1b", .ranks = 4, .micro_batches = 8}},
        AliveCase{"schedule=zero-bubble", {.name = "zero-bubble", .ranks = 4, .micro_batches = 8}},
        AliveCase{"schedule=zb-v", {.name = "zb-v", .ranks = 2, .micro_batches = 8, .interleave = 2}},
        AliveCase{"schedule=dualpipe-v", {.name = "dualpipe-v", .ranks = 2, .micro_batches = 8, .interleave = 2}},
        AliveCase{"schedule=interleaved", {.name = "interleaved", .ranks = 2, .micro_batches = 8, .interleave = 2}}})
    for (const std::string recompute : {"never", "always"})
      run_ranks(
          plan.ranks,
          [&, keys = keys, plan = plan](Comm& comm) {
            StrategyHarness one("pipeline(micro-batches=8," + keys + ",recompute=" + recompute + ")",
                                ModelRegistry::make(parse_spec("arch", "lenet"), kGrey), comm, kSgd);
            one.strategy->step(one.part(samples, 8, 0));
            const bool is_split = schedule_traits(plan.name).splits_backward;
            const int of_halves = !is_split ? 1 : plan.name == "zb-v" ? 2 * comm.rank() + 1 : comm.rank() + 1;
            EXPECT_EQ(one.strategy->most_alive(), recompute == "never"
                                                      ? most_alive(schedules_of(plan)[static_cast<size_t>(comm.rank())])
                                                      : of_halves)
                << keys << ", recompute " << recompute << ", rank " << comm.rank();
          },
          /*step_seconds=*/60, Network::kThreads);
}

/// Passes a gradient on, and counts how often.
class Counted final : public torch::autograd::Function<Counted> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    ++count;
    return gradients;
  }
  static inline int count = 0;
};

class SplitBackwardTest : public testing::Test {
 protected:
  SplitBackwardTest() {
    at::manual_seed(1);
    for (auto* tensor : {&x_, &a_, &b_, &bias_})
      *tensor = torch::randn({tensor == &bias_ ? 1 : 4, 4}, torch::kFloat64).requires_grad_();
  }

  /// What plain backward gives for these tensors.
  std::vector<torch::Tensor> expected(const torch::Tensor& loss) {
    loss.backward();
    std::vector<torch::Tensor> gradients;
    for (auto* tensor : {&x_, &a_, &b_, &bias_}) {
      gradients.push_back(tensor->grad().defined() ? tensor->grad().clone() : torch::Tensor());
      tensor->mutable_grad().reset();
    }
    return gradients;
  }

  torch::Tensor x_, a_, b_, bias_;
};

TEST_F(SplitBackwardTest, GivesTheInputFirstAndTheParametersLaterAndWalksTheWayOnce) {
  const auto loss = [&] { return Counted::apply(torch::relu(Counted::apply(x_).mm(a_) + bias_).mm(b_)).pow(2).sum(); };
  const auto plain = expected(loss());
  const auto output = loss();
  Counted::count = 0;
  SplitBackward split(output, torch::ones_like(output), x_);
  EXPECT_TRUE(x_.grad().equal(plain[0]));
  for (const auto* tensor : {&a_, &b_, &bias_}) EXPECT_FALSE(tensor->grad().defined());
  EXPECT_EQ(Counted::count, 2);
  int heard = 0;
  const AccumulationHooks hooks({a_, b_, bias_}, [&](size_t) { ++heard; });
  split.finish({a_, b_, bias_});
  EXPECT_TRUE(a_.grad().equal(plain[1]));
  EXPECT_TRUE(b_.grad().equal(plain[2]));
  EXPECT_TRUE(bias_.grad().equal(plain[3]));
  EXPECT_TRUE(x_.grad().equal(plain[0])) << "the way to the input was walked twice";
  EXPECT_EQ(Counted::count, 2);
  EXPECT_EQ(heard, 3);
}

TEST_F(SplitBackwardTest, AParameterThatJoinsTwiceGetsBothGradientsOnce) {
  const auto loss = [&] { return torch::relu(x_.mm(a_.t()) + bias_).mm(b_).mm(a_.t()).pow(2).sum(); };
  const auto plain = expected(loss());
  const auto output = loss();
  SplitBackward split(output, torch::ones_like(output), x_);
  split.finish({a_, b_, bias_});
  EXPECT_TRUE(x_.grad().equal(plain[0]));
  EXPECT_TRUE(a_.grad().equal(plain[1]));
  EXPECT_TRUE(b_.grad().equal(plain[2]));
  EXPECT_TRUE(bias_.grad().equal(plain[3]));
}

TEST_F(SplitBackwardTest, StagesThatGiveBackTheirInputHaveNothingToSplit) {
  SplitBackward split(x_, torch::ones_like(x_), x_);
  split.finish({a_});
  EXPECT_TRUE(x_.grad().equal(torch::ones_like(x_)));
  EXPECT_FALSE(a_.grad().defined());
}

}  // namespace
}  // namespace penstock::detail
