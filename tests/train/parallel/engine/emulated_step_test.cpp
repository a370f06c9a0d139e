// EmulatedStep: how long each mode waits in place of what, and that the messages are those of a step.
#include "train/parallel/engine/emulated_step.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/verify/matrix.h"

namespace penstock {
namespace {

using detail::BlockRange, detail::Operation;

/// Of a model of five blocks, whose step takes 6 us.
int64_t operation_ns(const StepPlan& plan, const BlockRange& blocks, const Operation& operation) {
  return detail::operation_ns(6'000, plan, blocks, 5, operation);
}

int64_t whole_ns(const StepPlan& plan, const BlockRange& blocks, bool recomputes = false) {
  return operation_ns(plan, blocks, {.kind = Operation::Kind::kForward, .recomputes = recomputes}) +
         operation_ns(plan, blocks, {.kind = Operation::Kind::kBackward, .recomputes = recomputes});
}

TEST(EmulatedStepTest, TheTimeIsDividedAsTheModeDividesTheWork) {
  const StepPlan single;
  const BlockRange all{0, 5};
  EXPECT_EQ(operation_ns(single, all, {.kind = Operation::Kind::kForward}), 2'000);
  EXPECT_EQ(operation_ns(single, all, {.kind = Operation::Kind::kBackward}), 4'000);
  EXPECT_EQ(operation_ns(single, all, {.kind = Operation::Kind::kInputGradient}), 2'000);
  EXPECT_EQ(operation_ns(single, all, {.kind = Operation::Kind::kWeightGradient}), 2'000);
  EXPECT_EQ(whole_ns(single, all, /*recomputes=*/true), 8'000);
  EXPECT_EQ(whole_ns({.mesh = {.data = 2, .replicas = 2}}, all), 1'500);
  const StepPlan four{.schedule = {.micro_batches = 4}};
  EXPECT_EQ(whole_ns(four, {0, 1}), 300);  // one stage of five
  EXPECT_EQ(operation_ns(four, {2, 5}, {.kind = Operation::Kind::kBackward}), 600);
}

/// Steps of one full batch and of one with a single row, in which ranks and micro-batches have none.
TEST(EmulatedStepTest, EveryModeSendsItsMessagesAndChangesNothing) {
  const auto samples = random_samples(25, kGrey, 4);
  std::set<std::pair<std::string, int>> cases;
  for (const auto& pair : matrix_of({.archs = {"lenet"}, .ranks = {1, 2, 4}, .hostings = {Hosting::kThreads}}).pairs)
    cases.emplace(pair.mode, pair.ranks);
  EXPECT_GT(cases.size(), 20U);
  for (const auto& [mode, ranks] : cases) {
    SCOPED_TRACE(concat(mode, ", ", ranks, " ranks"));
    run_ranks(
        ranks,
        [&, mode = mode](Comm& comm) {
          const auto make = [] {
            at::manual_seed(1);
            auto model = ModelRegistry::make(parse_spec("arch", "lenet"), kGrey);
            model->to(torch::kFloat64);
            return model;
          };
          const auto model = make();
          Recorder recorder;
          StrategyContext context{*model, comm, torch::kCPU, kSgd, recorder, {.step_ns = 30'000}};
          context.make_model = make;
          const auto strategy = StrategyRegistry::make(parse_spec("mode", mode), context);
          const auto before = strategy->state();
          for (int64_t step = 0; step < 2; ++step) {
            auto batch = part_of(samples, 24, step, strategy->data_rank(), strategy->data_world_size());
            if (!strategy->is_fed()) batch.images = batch.labels = batch.weights = torch::Tensor();
            EXPECT_EQ(strategy->step(batch).loss.item<double>(), 0);
          }
          for (const auto& [name, tensor] : strategy->state())
            if (name.starts_with("model.")) {
              EXPECT_TRUE(tensor.equal(before.at(name))) << name;
            }
        },
        /*step_seconds=*/60, Network::kThreads);
  }
}

/// Rank 1 of mp has nothing to do before the forward of rank 0 and after its own backward.
TEST(EmulatedStepTest, RanksOfAPipelineWaitForEachOther) {
  const auto samples = random_samples(8, kGrey, 4);
  constexpr int64_t kStep_ns = 30'000'000;
  run_ranks(
      2,
      [&](Comm& comm) {
        at::manual_seed(1);
        const auto model = ModelRegistry::make(parse_spec("arch", "lenet"), kGrey);
        Recorder recorder;
        const auto strategy =
            StrategyRegistry::make(parse_spec("mode", "mp(cut=fc1)"),
                                   StrategyContext{*model, comm, torch::kCPU, kSgd, recorder, {.step_ns = kStep_ns}});
        auto batch = part_of(samples, 8, 0, 0, 1);
        batch.images = batch.images.to(torch::kFloat32);
        if (!strategy->is_fed()) batch.images = batch.labels = batch.weights = torch::Tensor();
        comm.barrier();
        recorder.restart();
        strategy->step(batch);
        const auto times = recorder.times();
        // Stages conv1 and conv2 of five at rank 0, whose backward begins when all of rank 1 has ended. A slow machine
        // makes each of these times longer, and none shorter.
        const double own = comm.rank() == 0 ? 12 : 18, computed = times[Phase::kForward] + times[Phase::kBackward];
        EXPECT_GE(computed, own - 0.01);
        if (comm.rank() == 0) {
          EXPECT_GE(computed + times[Phase::kBubble], 30 - 0.01);
        }
      },
      /*step_seconds=*/60, Network::kThreads);
}

}  // namespace
}  // namespace penstock
