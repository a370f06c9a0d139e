// Modes: every one of them, over any number of ranks, trains the model that a plain loop over all rows trains.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <tuple>

#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/plain_optimizer.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/verify/matrix.h"

namespace penstock {
namespace {

// Where a gradient is below eps, Adam multiplies the rounding of its sum by learning_rate / eps: with 0.001 that came
// to 2e-13.
const OptimizerOptions kAdamw{.learning_rate = 1e-4, .weight_decay = 1e-2, .spec = "adamw"};
const OptimizerOptions kLamb{.learning_rate = 0.01, .weight_decay = 1e-2, .spec = "lamb"};

std::unique_ptr<Model> make_typed(const std::string& arch, const ModelShape& shape, torch::ScalarType dtype) {
  auto model = make(arch, shape);
  model->to(dtype);
  return model;
}

/// What the modes are held against: no strategy, no communicator, no engine. `parts`: the global batch is cut into so
/// many, which go through forward and backward one after the other and whose gradients are added in their order.
StateDict plain_loop(Model& model, const Samples& samples, int64_t batch_size, int64_t step_count, int parts,
                     const OptimizerOptions& options = kSgd) {
  PlainOptimizer optimizer(options);
  for (int64_t step = 0; step < step_count; ++step) {
    std::vector<torch::Tensor> sums;
    for (int part = 0; part < parts; ++part) {
      const auto batch = part_of(samples, batch_size, step, part, parts);
      model.zero_grad();
      const auto logits = model.forward(batch.images.narrow(0, 0, batch.count));
      const auto losses =
          torch::cross_entropy_loss(logits, batch.labels.narrow(0, 0, batch.count), {}, at::Reduction::None);
      const auto loss = (losses * batch.weights.narrow(0, 0, batch.count)).sum();
      loss.backward(torch::full_like(loss, 1.0 / static_cast<double>(batch.global_count)));
      const auto parameters = model.parameters();
      for (size_t i = 0; i < parameters.size(); ++i) {
        const auto gradient = parameters[i].grad().clone();
        if (part == 0)
          sums.push_back(gradient);
        else
          sums[i] += gradient;
      }
    }
    optimizer.step(model.parameters(), sums);
  }
  StateDict state;
  for (const auto& item : model.named_parameters()) state["model." + item.key()] = item.value().detach().clone();
  return state;
}

/// Rank 0's parameters after training with a mode.
StateDict train(const std::string& mode, int world_size, const std::string& arch, const ModelShape& shape,
                const Samples& samples, int64_t batch_size, int64_t step_count, torch::ScalarType dtype,
                Network network = Network::kGloo, const OptimizerOptions& options = kSgd) {
  StateDict state;
  const auto body = [&](Comm& comm) {
    const auto make_one = [&] { return make_typed(arch, shape, dtype); };
    StrategyHarness one(mode, make_one, comm, options, dtype, torch::kCPU,
                        {batch_size, shape.channels, shape.height, shape.width});
    comm.barrier();  // recomputation sets the random numbers of which other ranks build their models
    for (int64_t i = 0; i < step_count; ++i) one.strategy->step(one.part(samples, batch_size, i));
    const auto all = one.strategy->state();
    if (comm.rank() != 0) return;
    for (const auto& [name, tensor] : all)
      if (name.starts_with("model.") && !name.ends_with("running_mean") && !name.ends_with("running_var") &&
          !name.ends_with("num_batches_tracked"))
        state.emplace(name, tensor);
  };
  run_ranks(world_size, body, /*step_seconds=*/60, network);
  return state;
}

struct ModeCase {
  std::string mode;
  int world_size;
};

/// Before the modes were put together from parts, `single` and `ddp` were one class. Their bits are those of this loop
/// then and now: on any processor, where a digest would hold on one.
TEST(ModesTest, SingleAndDdpHaveTheBitsOfAPlainLoop) {
  for (const auto& [arch, shape] : {std::pair{"lenet", kGrey}, std::pair{"resnet18", kSmallPhotos}}) {
    auto samples = random_samples(24, shape, 3);
    samples.images = samples.images.to(torch::kFloat32);
    for (const auto& [mode, world_size] : {ModeCase{"single", 1}, ModeCase{"ddp", 1}, ModeCase{"ddp", 2}}) {
      at::set_num_threads(1);
      const auto model = make_typed(arch, shape, torch::kFloat32);
      const auto expected = plain_loop(*model, samples, 8, 3, world_size);
      const auto state = train(mode, world_size, arch, shape, samples, 8, 3, torch::kFloat32);
      EXPECT_EQ(relative_difference(expected, state), 0) << mode << ", " << world_size << " ranks, " << arch;
    }
  }
}

/// What the registry names: every mode with its examples, also those of a plug-in, where `single` over this batch is
/// the same training. Two and four ranks, or the number that a mode chooses.
std::vector<ModeCase> registered_cases(int64_t batch_size) {
  std::vector<ModeCase> cases;
  const VerifyOptions options{.archs = {"lenet"}, .hostings = {Hosting::kThreads}, .batch_size = batch_size};
  for (const auto& pair : matrix_of(options).pairs)
    if (pair.equivalence == Equivalence::kFp64) cases.push_back({pair.mode, pair.ranks});
  return cases;
}

/// The class fp64: gradients are the same sums in another order.
TEST(ModesTest, EveryModeTrainsTheSameModel) {
  const auto samples = random_samples(36, kGrey, 4);
  const auto model = make_typed("lenet", kGrey, torch::kFloat64);
  const auto expected = plain_loop(*model, samples, 12, 3, 1);
  auto cases = registered_cases(12);
  for (const auto& name : StrategyRegistry::names())
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const ModeCase& one) { return one.mode == name; })) << name;
  // Odd numbers of ranks, and keys that no example has.
  for (const ModeCase& more : {ModeCase{"ddp", 3},
                               ModeCase{"zero", 1},
                               ModeCase{"zero", 3},
                               ModeCase{"zero(stage=2)", 1},
                               ModeCase{"zero(stage=2)", 3},
                               ModeCase{"zero(stage=3)", 1},
                               ModeCase{"zero(stage=3)", 3},
                               ModeCase{"mp", 5},
                               ModeCase{"mp(cut=fc1)", 2},
                               ModeCase{"mp(balance=memory)", 3},
                               ModeCase{"pipeline", 1},
                               ModeCase{"pipeline(schedule=gpipe)", 3},
                               ModeCase{"pipeline(micro-batches=12)", 2},
                               ModeCase{"pipeline(balance=time,data=2,micro-batches=3)", 4},
                               ModeCase{"pipeline(balance=memory,schedule=interleaved)", 2},
                               ModeCase{"pipeline(schedule=interleaved,data=2,micro-batches=2)", 4},
                               ModeCase{"pipeline(schedule=zero-bubble)", 3},
                               ModeCase{"pipeline(schedule=zero-bubble,data=2,micro-batches=6)", 4},
                               ModeCase{"pipeline(data=2,zero=1,micro-batches=3)", 4},
                               ModeCase{"pipeline(data=3,zero=2)", 6},
                               ModeCase{"pipeline(schedule=interleaved,data=2,zero=2,micro-batches=2)", 4},
                               ModeCase{"pipeline(schedule=zero-bubble,data=2,zero=2,micro-batches=3)", 4},
                               ModeCase{"pipeline(schedule=zb-v,micro-batches=2)", 2},
                               ModeCase{"pipeline(schedule=zb-v,data=2,micro-batches=6)", 4},
                               ModeCase{"pipeline(schedule=dualpipe-v,data=2,micro-batches=6)", 4},
                               ModeCase{"pipeline(schedule=zb-v,data=2,zero=2,micro-batches=3)", 4},
                               ModeCase{"pipeline(schedule=dualpipe-v,recompute=always)", 2},
                               ModeCase{"pipeline(recompute=always)", 3},
                               ModeCase{"pipeline(schedule=interleaved,recompute=always)", 2},
                               ModeCase{"pipeline(schedule=zero-bubble,recompute=except-last)", 2},
                               ModeCase{"ddp(accumulate=2)", 3},
                               ModeCase{"zero(accumulate=3)", 2},
                               ModeCase{"zero(stage=2,accumulate=2)", 3},
                               ModeCase{"ddp(accumulate=2,compress=powersgd,rank=1000)", 3},
                               ModeCase{"dp(devices=cpu:5)", 1}})
    cases.push_back(more);
  for (const auto& [mode, world_size] : cases)
    for (const auto network : {Network::kGloo, Network::kThreads})
      EXPECT_LE(relative_difference(expected,
                                    train(mode, world_size, "lenet", kGrey, samples, 12, 3, torch::kFloat64, network)),
                1e-12)
          << mode << ", " << world_size << " ranks" << (network == Network::kThreads ? ", threads" : "");
}

/// In places of no registered schedule, and with gradients that are taken in another order than they are sent.
TEST(ModesTest, APipelineByAFileTrainsTheSameModel) {
  const auto samples = random_samples(23, kGrey, 4);
  const std::string arch = "mlp(hidden=12:12:12)";
  const auto expected = plain_loop(*make_typed(arch, kGrey, torch::kFloat64), samples, 12, 2, 1);
  const TemporaryFolder folder("schedules");
  const auto path = folder.path() / "schedule.csv";
  for (const char* text : {"0F0,0F1,0F2,0SEND_F0,0SEND_F1,0SEND_F2,0RECV_B2,0B2,0RECV_B0,0I0,0RECV_B1,0B1,0W0\n"
                           "1RECV_F0,1F0,1RECV_F1,1F1,1RECV_F2,1F2,1B2,1SEND_B2,1B0,1B1,1SEND_B0,1SEND_B1\n",
                           "0F0,0F1,3F0,3B0,(3F1;0B0)OVERLAP_F_B,3B1,0B1\n1F0,2F0,1F1,2F1,2I0,1I0,2W0,2B1,1B1,1W0\n",
                           "0F0,1F0,3F0,3I0,0F1,1F1,3F1,3I1,1B0,0B0,1B1,0B1,3W1,3W0\n2F0,2F1,2B0,2B1\n",
                           "0F0,0F1,0B0,0B1\n1F0,1F1,1B1,1B0\n"}) {
    std::ofstream(path) << text;
    for (const int copies : {1, 2}) {
      const auto state = train(concat("pipeline(schedule=", path.string(), ",data=", copies, ")"), 2 * copies, arch,
                               kGrey, samples, 12, 2, torch::kFloat64);
      EXPECT_LE(relative_difference(expected, state), 1e-12) << text << ", " << copies << " copies";
    }
  }
}

/// LAMB needs norms of whole parameters, of which a rank of zero has pieces.
TEST(ModesTest, EveryOptimizerTrainsTheSameModelInEveryMode) {
  const auto samples = random_samples(36, kGrey, 4);
  for (const auto& options : {kAdamw, kLamb}) {
    const auto model = make_typed("lenet", kGrey, torch::kFloat64);
    const auto expected = plain_loop(*model, samples, 12, 3, 1, options);
    for (const auto& [mode, world_size] :
         {ModeCase{"single", 1}, ModeCase{"ddp", 2}, ModeCase{"zero", 3}, ModeCase{"zero(stage=2)", 2},
          ModeCase{"zero(stage=3)", 2}, ModeCase{"pipeline", 2}, ModeCase{"pipeline(data=2,micro-batches=3)", 4},
          ModeCase{"pipeline(data=2,zero=2,micro-batches=3)", 4}, ModeCase{"dp(devices=cpu:3)", 1}})
      EXPECT_LE(relative_difference(expected, train(mode, world_size, "lenet", kGrey, samples, 12, 3, torch::kFloat64,
                                                    Network::kThreads, options)),
                1e-12)
          << mode << ", " << world_size << " ranks, " << options.spec;
  }
}

/// With one micro-batch BatchNorm sees what it sees in single.
TEST(ModesTest, BatchNormAndResidualBlocksInPartsTrainTheSameModel) {
  const auto expect = [](const std::string& arch, const ModelShape& shape, const std::vector<ModeCase>& cases) {
    const auto samples = random_samples(8, shape, 4);
    const auto expected = plain_loop(*make_typed(arch, shape, torch::kFloat64), samples, 4, 2, 1);
    for (const auto& [mode, world_size] : cases)
      EXPECT_LE(relative_difference(expected, train(mode, world_size, arch, shape, samples, 4, 2, torch::kFloat64)),
                1e-12)
          << arch << ", " << mode;
  };
  expect("lenet(batch-norm=true)", kSmallGrey,
         {{"mp", 2}, {"mp(balance=memory)", 2}, {"zero", 1}, {"zero(stage=3)", 1}, {"dp(devices=cpu:1)", 1}});
  expect("resnet18", kSmallPhotos,
         {{"mp(cut=layer1.1:layer4)", 3}, {"pipeline(micro-batches=1,schedule=zero-bubble)", 2}});
}

/// What a row drops belongs to its position in the epoch: all modes drop the same, without --exact too. The last batch
/// has three rows, one for each of three ranks.
TEST(ModesTest, ModelsThatDropTrainTheSameModelInEveryMode) {
  const auto samples = random_samples(27, kGrey, 4);
  for (const std::string arch : {"vit(patch=14,width=8,depth=3,heads=2,mlp=12,dropout=0.2,drop-path=0.3)",
                                 "convnext(widths=4:8,depths=2:2,drop-path=0.4)"}) {
    const auto train_one = [&](const std::string& mode, int ranks, Network network) {
      return train(mode, ranks, arch, kGrey, samples, 12, 3, torch::kFloat64, network);
    };
    const auto expected = train_one("single", 1, Network::kThreads);
    for (const auto& [mode, ranks] :
         {ModeCase{"single(accumulate=3)", 1}, ModeCase{"ddp", 3}, ModeCase{"zero(stage=3)", 2}, ModeCase{"mp", 2},
          ModeCase{"pipeline(schedule=zero-bubble,recompute=always)", 2}, ModeCase{"dp(devices=cpu:5)", 1}})
      EXPECT_LE(relative_difference(expected, train_one(mode, ranks, Network::kThreads)), 1e-12)
          << arch << ": " << mode << ", " << ranks << " ranks";
  }
}

/// With parts of several stages: rows of one micro-batch go around.
TEST(ModesTest, APartialLastBatchGoesAroundAnInterleavedPipelineToo) {
  const auto samples = random_samples(23, kGrey, 4);
  const std::string arch = "mlp(hidden=12:12:12)";
  const auto model = make_typed(arch, kGrey, torch::kFloat64);
  const auto expected = plain_loop(*model, samples, 12, 2, 1);
  for (const std::string mode :
       {"pipeline(schedule=interleaved,micro-batches=6)", "pipeline(schedule=zb-v,micro-batches=6)",
        "pipeline(schedule=dualpipe-v,micro-batches=6)"})
    EXPECT_LE(relative_difference(expected, train(mode, 2, arch, kGrey, samples, 12, 2, torch::kFloat64)), 1e-12)
        << mode;
}

/// Batches of 10, 10 and 3 rows: micro-batches of the last one are smaller, or have no rows at all.
TEST(ModesTest, APartialLastBatchGoesThroughAPipelineToo) {
  const auto samples = random_samples(23, kGrey, 4);
  const auto model = make_typed("mlp", kGrey, torch::kFloat64);
  const auto expected = plain_loop(*model, samples, 10, 3, 1);
  for (const auto& [mode, world_size] :
       {ModeCase{"pipeline(micro-batches=5)", 2}, ModeCase{"pipeline(micro-batches=5,data=2)", 4},
        ModeCase{"pipeline(micro-batches=5,data=2,zero=2)", 4},
        ModeCase{"pipeline(micro-batches=5,schedule=zero-bubble)", 2}, ModeCase{"zero", 4},
        ModeCase{"zero(stage=2)", 4}, ModeCase{"zero(stage=3)", 4}, ModeCase{"single(accumulate=5)", 1},
        ModeCase{"ddp(accumulate=5)", 2}, ModeCase{"dp(devices=cpu:4)", 1}})
    EXPECT_LE(relative_difference(expected, train(mode, world_size, "mlp", kGrey, samples, 10, 3, torch::kFloat64)),
              1e-12)
        << mode;
}

/// Two steps with one mode, the state, two more with another: as four with any.
class GoingOnTest : public testing::TestWithParam<OptimizerOptions> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, GoingOnTest, testing::Values(kSgd, kAdamw, kLamb),
                         [](const auto& info) { return info.param.spec; });

TEST_P(GoingOnTest, ARunGoesOnInAnotherModeAndWorldSize) {
  const auto& options = GetParam();
  const auto samples = random_samples(48, kGrey, 4);
  const auto make_lenet = [] { return make_typed("lenet", kGrey, torch::kFloat64); };
  const auto model = make_lenet();
  const auto expected = plain_loop(*model, samples, 12, 4, 1, options);
  const std::vector<ModeCase> modes{{"single", 1},
                                    {"ddp", 2},
                                    {"zero", 3},
                                    {"zero(stage=2)", 2},
                                    {"pipeline", 2},
                                    {"pipeline(schedule=interleaved,data=2)", 4},
                                    {"zero(stage=3)", 3},
                                    {"pipeline(data=2,zero=1,micro-batches=3)", 4},
                                    {"dp(devices=cpu:3)", 1}};
  for (size_t i = 0; i < modes.size(); ++i) {
    const auto& [first, first_ranks] = modes[i];
    const auto& [second, second_ranks] = modes[(i + 2) % modes.size()];
    StateDict state, parameters;
    run_ranks(first_ranks, [&](Comm& comm) {
      StrategyHarness one(first, make_lenet, comm, options);
      for (int64_t step = 0; step < 2; ++step) one.strategy->step(one.part(samples, 12, step));
      auto all = one.strategy->state();
      if (comm.rank() == 0) state = std::move(all);
    });
    run_ranks(second_ranks, [&](Comm& comm) {
      StrategyHarness one(second, make_lenet, comm, options);
      one.strategy->load_state(state);
      for (int64_t step = 2; step < 4; ++step) one.strategy->step(one.part(samples, 12, step));
      for (const auto& [name, tensor] : one.strategy->state())
        if (comm.rank() == 0 && name.starts_with("model.")) parameters.emplace(name, tensor);
    });
    EXPECT_LE(relative_difference(expected, parameters), 1e-12) << first << ", then " << second;
  }
}

}  // namespace
}  // namespace penstock
