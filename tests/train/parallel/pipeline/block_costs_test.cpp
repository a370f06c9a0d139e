// Block costs: what measuring counts, what it leaves as it was, and where models are cut by it.
#include "train/parallel/pipeline/block_costs.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <mutex>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/nn/model.h"

namespace penstock::detail {
namespace {

constexpr ModelShape kPhotosOf64{.channels = 3, .height = 64, .width = 64, .classes = 5};

using Cuts = std::vector<size_t>;

/// Where parts begin, but for the first one.
Cuts cuts(const std::vector<BlockRange>& ranges) {
  Cuts list;
  for (size_t i = 1; i < ranges.size(); ++i) list.push_back(ranges[i].first);
  return list;
}

std::vector<double> activation_bytes(const std::vector<BlockCost>& costs) {
  std::vector<double> bytes;
  for (const auto& cost : costs) bytes.push_back(cost.activation_bytes);
  return bytes;
}

/// Five linear layers, of which one is computed `repeats` times and keeps the results of each.
class OneHeavyBlock final : public Model {
 public:
  OneHeavyBlock(size_t heavy, int repeats) {
    for (size_t i = 0; i < 5; ++i) {
      const std::string name = "fc" + std::to_string(i);
      torch::nn::Linear fc = register_module(name, torch::nn::Linear(kWidth, kWidth));
      add_block(name, {name}, [fc, times = i == heavy ? repeats : 1](torch::Tensor x) mutable {
        for (int k = 0; k < times; ++k) x = torch::relu(fc(x));
        return x;
      });
    }
  }
  static constexpr int64_t kWidth = 256;
};

/// Everything that measuring might change: BatchNorm's statistics, and random numbers that forward draws.
class Changeable final : public Model {
 public:
  Changeable() {
    torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(1));
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(144, 4));
    add_block("norm", {"norm"}, [norm](const torch::Tensor& x) mutable { return norm(x).relu_(); });
    add_block("fc", {"fc"},
              [fc](const torch::Tensor& x) mutable { return fc(torch::dropout(x, 0.5, /*train=*/true).flatten(1)); });
  }
};

/// With one thread: several would spin, and wait for each other where other programs run.
std::vector<BlockCost> measure(const std::vector<int64_t>& input_sizes, Model& model) {
  at::set_num_threads(1);
  return measure_blocks(model, input_sizes, /*micro_batches=*/2, torch::kCPU);
}

TEST(BlockCostsTest, MemoryIsWhatForwardLeavesBehind) {
  const auto model = make("mlp(hidden=128:64)", kGrey);
  // Each hidden layer keeps the result of its ReLU, which is its output too; the product before it is given back.
  EXPECT_THAT(activation_bytes(measure({6, 1, 28, 28}, *model)),
              testing::ElementsAre(6 * 128 * 4, 6 * 64 * 4, 6 * 10 * 4));
  model->to(torch::kFloat64);
  EXPECT_THAT(activation_bytes(measure({3, 1, 28, 28}, *model)),
              testing::ElementsAre(3 * 128 * 8, 3 * 64 * 8, 3 * 10 * 8));
  // Ten results of ReLU, each of which the product after it needs, and so does the ReLU itself.
  OneHeavyBlock heavy(2, 10);
  EXPECT_THAT(activation_bytes(measure({8, OneHeavyBlock::kWidth}, heavy)),
              testing::ElementsAre(8192, 8192, 81920, 8192, 8192));
}

TEST(BlockCostsTest, APartHasItsStateOnceAndItsActivationsAsOftenAsTheyAreAlive) {
  const auto model = make("mlp(hidden=8)", {.channels = 1, .height = 2, .width = 2, .classes = 3});
  const std::vector<BlockCost> costs{{1, 1000}, {1, 10}};
  const double first = 4 * (4 * 8 + 8), second = 4 * (8 * 3 + 3);
  const auto bytes = part_bytes(facts_of(*model), costs, {3, 2}, memory_formula(StepPlan(), /*optimizer_slots=*/1));
  EXPECT_EQ(bytes(0, {0, 1}), 3 * first + 3 * 1000);  // parameters, gradients, momentum
  EXPECT_EQ(bytes(1, {0, 2}), 3 * (first + second) + 2 * 1010);
  model->freeze("fc1");
  EXPECT_EQ(part_bytes(facts_of(*model), costs, {3, 2}, memory_formula(StepPlan(), 2))(0, {0, 2}),
            first + 4 * second + 3 * 1010);
}

TEST(BlockCostsTest, NothingIsChangedByMeasuring) {
  Changeable model;
  at::manual_seed(7);
  { model.blocks()[0].forward(torch::randn({4, 1, 12, 12})); }  // statistics that are not the initial ones
  std::map<std::string, std::pair<torch::Tensor, void*>> before;
  const auto all = [&] {
    auto tensors = model.named_parameters();
    for (const auto& item : model.named_buffers()) tensors.insert(item.key(), item.value());
    return tensors;
  };
  for (const auto& item : all()) before[item.key()] = {item.value().detach().clone(), item.value().data_ptr()};
  const auto generator = at::globalContext().defaultGenerator(torch::kCPU).get_state();
  measure({4, 1, 12, 12}, model);
  for (const auto& item : all()) {
    const auto& [value, memory] = before.at(item.key());
    EXPECT_TRUE(value.equal(item.value().detach())) << item.key();
    EXPECT_EQ(item.value().data_ptr(), memory) << item.key();
    EXPECT_FALSE(item.value().grad().defined()) << item.key();
  }
  EXPECT_TRUE(generator.equal(at::globalContext().defaultGenerator(torch::kCPU).get_state()));
  EXPECT_TRUE(model.is_training());
}

TEST(BlockCostsTest, AFrozenBeginningKeepsNothingForABackward) {
  OneHeavyBlock model(1, 10);
  const auto bytes = [&] { return activation_bytes(measure({8, OneHeavyBlock::kWidth}, model)); };
  model.freeze("fc0");
  EXPECT_THAT(bytes(), testing::ElementsAre(8192, 81920, 8192, 8192, 8192));
  model.freeze("fc1");
  EXPECT_THAT(bytes(), testing::ElementsAre(8192, 8192, 8192, 8192, 8192));  // their outputs alone
}

TEST(BlockCostsTest, AResNetIsCutElsewhereThanByItsParameters) {
  const auto model = make("resnet18", kPhotosOf64);
  const auto by_parameters = cuts(balanced(10, 2, part_parameters(facts_of(*model))));
  EXPECT_EQ(by_parameters, Cuts{8});
  const auto costs = measure({8, 3, 64, 64}, *model);
  for (const auto& cost : costs) EXPECT_GT(cost.ms, 0);
  EXPECT_LT(cuts(balanced(10, 2, part_sum(activation_bytes(costs)))).front(), 4U);  // large maps, few channels
  EXPECT_LT(cuts(balanced(10, 2, part_bytes(facts_of(*model), costs, {2, 1}, memory_formula(StepPlan(), 1)))).front(),
            8U);
  EXPECT_LT(cuts(balanced(10, 2, part_ms(costs))).front(), 8U);
}

/// Its times are real, so that a program that runs meanwhile may disturb a try.
TEST(BlockCostsTest, ABlockOfTenTimesTheWorkGetsAPartOfItsOwn) {
  OneHeavyBlock model(2, 10);
  EXPECT_EQ(cuts(balanced(5, 3, part_parameters(facts_of(model)))), (Cuts{1, 3}));
  Cuts by_time;
  for (int tries = 0; tries < 5 && by_time != Cuts{2, 3}; ++tries)
    by_time = cuts(balanced(5, 3, part_ms(measure({128, OneHeavyBlock::kWidth}, model))));
  EXPECT_EQ(by_time, (Cuts{2, 3}));
}

TEST(BlockCostsTest, EveryRankGetsTheNumbersOfRank0) {
  std::vector<std::vector<BlockCost>> all(3);
  run_ranks(3, [&](Comm& comm) {
    OneHeavyBlock model(comm.rank() == 0 ? 1 : 4, 10);
    all[static_cast<size_t>(comm.rank())] =
        agreed_block_costs(comm, model, {8, OneHeavyBlock::kWidth}, /*micro_batches=*/2, torch::kCPU);
  });
  EXPECT_THAT(activation_bytes(all[0]), testing::ElementsAre(8192, 81920, 8192, 8192, 8192));
  for (const auto& costs : all)
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(costs[i].ms, all[0][i].ms);
      EXPECT_EQ(costs[i].activation_bytes, all[0][i].activation_bytes);
    }
}

/// A mode that measures holds the weights that it would hold without.
TEST(BlockCostsTest, AModeStartsFromTheSameWeightsHoweverItIsBalanced) {
  std::vector<StateDict> states;
  for (const std::string mode : {"mp", "mp(balance=time)", "mp(balance=memory)"}) {
    StateDict state;
    std::mutex one_at_a_time;  // models are made of global random numbers
    run_ranks(2, [&](Comm& comm) {
      std::unique_lock lock(one_at_a_time);
      at::manual_seed(1);
      auto model = std::make_unique<Changeable>();
      lock.unlock();
      StrategyHarness one(mode, std::move(model), comm, {}, torch::kFloat32, torch::kCPU, {4, 1, 12, 12});
      auto all = one.strategy->state();
      if (comm.rank() == 0) state = std::move(all);
    });
    states.push_back(std::move(state));
  }
  for (const auto& state : states) EXPECT_EQ(relative_difference(states.front(), state), 0);
}

}  // namespace
}  // namespace penstock::detail
