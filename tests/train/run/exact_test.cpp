// --exact: every mode, mesh and hosting trains the same bits.
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <mutex>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/sample_feeder.h"
#include "tests/train/strategy_batches.h"
#include "train/comm/sum_over_copies.h"

namespace penstock {
namespace {

constexpr ModelShape kTinyPhotos{.channels = 3, .height = 13, .width = 13, .classes = 5};
constexpr int kShards = 8, kBatch = 16;
// 16, 16 and 7: the last batch has shards of 2, 2, 2 and 1 rows, and four without any.
constexpr int64_t kSamples = 39, kSteps = 3;

using torch::nn::Conv2d, torch::nn::Conv2dOptions;

/// A ResNet of two blocks, with BatchNorm, shortcuts and 7 x 7 maps. `dropout`: of the last stage's input.
class SmallResNet final : public Model {
 public:
  explicit SmallResNet(double dropout = 0) {
    Conv2d conv = register_module("conv", Conv2d(Conv2dOptions(3, 12, 3).stride(2).padding(1).bias(false)));
    torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(12));
    add_block("stem", {"conv", "norm"}, [conv, norm](const torch::Tensor& x) mutable { return norm(conv(x)).relu_(); });
    for (const std::string name : {"a", "b"}) {
      Conv2d first = register_module(name + "1", Conv2d(Conv2dOptions(12, 12, 3).padding(1).bias(false)));
      torch::nn::BatchNorm2d first_norm = register_module(name + "1n", torch::nn::BatchNorm2d(12));
      Conv2d second = register_module(name + "2", Conv2d(Conv2dOptions(12, 12, 3).padding(1).bias(false)));
      torch::nn::BatchNorm2d second_norm = register_module(name + "2n", torch::nn::BatchNorm2d(12));
      add_block("block-" + name, {name + "1", name + "1n", name + "2", name + "2n"},
                [=](const torch::Tensor& x) mutable {
                  return (second_norm(second(first_norm(first(x)).relu_())) + x).relu_();
                });
    }
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(12, 5));
    add_block("head", {"fc"}, [this, fc, dropout](const torch::Tensor& x) mutable {
      return fc(torch::dropout(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), dropout, is_training() && dropout > 0));
    });
  }
};

/// A model is built from the global random numbers, so rank threads take turns.
std::unique_ptr<Model> in_turn(const std::function<std::unique_ptr<Model>()>& build) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::manual_seed(1);
  return build();
}

std::unique_ptr<Model> make_resnet() {
  return in_turn([]() -> std::unique_ptr<Model> { return std::make_unique<SmallResNet>(); });
}
std::unique_ptr<Model> make_dropout() {
  return in_turn([]() -> std::unique_ptr<Model> { return std::make_unique<SmallResNet>(0.5); });
}

struct Case {
  std::string mode;
  int world_size = 1;
  Network network = Network::kThreads;
};

struct Training {
  ModelMaker make;
  Samples samples;
  OptimizerOptions options = kSgd;
  int64_t class_count = 10;
};

Training lenet_training() {
  auto samples = random_samples(kSamples, kGrey, 4);
  samples.images = samples.images.to(torch::kFloat32);
  return {make_lenet, samples};
}

Training resnet_training() {
  auto samples = random_samples(kSamples, kTinyPhotos, 4);
  samples.images = samples.images.to(torch::kFloat32);
  return {make_resnet, samples, kSgd, kTinyPhotos.classes};
}

/// Rank 0's state after the steps `first` .. `end` - 1, from `state` if there is one. `said`: the losses of these
/// steps, and the scores of an evaluation.
StateDict train(const Training& training, const Case& one, int64_t first = 0, int64_t end = kSteps,
                const StateDict& state = {}, std::vector<double>* said = nullptr) {
  StateDict result;
  run_ranks(
      one.world_size,
      [&](Comm& comm) {
        StrategyHarness trainee(one.mode, training.make, comm, training.options, torch::kFloat32, torch::kCPU, {},
                                kShards);
        if (!state.empty()) trainee.strategy->load_state(state);
        comm.barrier();  // recomputation sets the random numbers of which other ranks build their models
        auto& strategy = *trainee.strategy;
        std::vector<double> heard;
        for (int64_t i = first; i < end; ++i) {
          const auto loss = strategy.step(trainee.part(training.samples, kBatch, i)).loss.to(torch::kFloat64);
          if (said) heard.push_back(sum_over_copies(comm, strategy.data_world_size(), loss).item<double>());
        }
        auto all = strategy.state();
        if (said) {
          const auto scores = scores_of(trainee, comm, training.samples, *make_loss(), training.class_count, kShards);
          heard.insert(heard.end(), scores.begin(), scores.end());
        }
        if (comm.rank() != 0) return;
        result = std::move(all);
        if (said) *said = std::move(heard);
      },
      /*step_seconds=*/60, one.network);
  return result;
}

/// Names of the tensors that are not equal to the bit, and of those that one of the two lacks.
std::vector<std::string> differing(const StateDict& expected, const StateDict& found) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : expected) {
    const auto other = found.find(name);
    const auto bytes = [](const torch::Tensor& of) { return of.contiguous().view({-1}).view(torch::kUInt8); };
    if (other == found.end() || !bytes(tensor).equal(bytes(other->second))) names.push_back(name);
  }
  for (const auto& [name, tensor] : found)
    if (!expected.contains(name)) names.push_back(name);
  return names;
}

using Names = std::vector<std::string>;

const std::vector<Case> kCases{{"ddp", 1},
                               {"ddp", 2},
                               {"ddp", 4},
                               {"ddp", 8},
                               {"ddp", 2, Network::kGloo},
                               {"ddp", 4, Network::kGloo},
                               {"dp(devices=cpu:1)"},
                               {"dp"},
                               {"dp(devices=cpu:4)"},
                               {"mp", 2},
                               {"mp", 4},
                               {"pipeline", 2, Network::kGloo},
                               {"pipeline(schedule=gpipe)", 2},
                               {"pipeline(schedule=1f1b)", 4},
                               {"pipeline(schedule=interleaved)", 2},
                               {"pipeline(schedule=zero-bubble)", 4},
                               {"pipeline(schedule=zb-v)", 2},
                               {"pipeline(schedule=dualpipe-v)", 2},
                               {"pipeline(recompute=always)", 2},
                               {"pipeline(schedule=zero-bubble,recompute=except-last)", 2},
                               {"pipeline(data=2)", 4},
                               {"pipeline(data=4,schedule=zero-bubble)", 8},
                               {"pipeline(data=2,schedule=interleaved)", 4},
                               {"zero", 2},
                               {"zero", 4},
                               {"zero(stage=2)", 2},
                               {"zero(stage=2)", 4, Network::kGloo},
                               {"zero(stage=3)", 2},
                               {"zero(stage=3)", 4, Network::kGloo},
                               {"zero(stage=3)", 8},
                               {"pipeline(data=2,zero=1)", 4},
                               {"pipeline(data=4,zero=1)", 8},
                               {"pipeline(data=2,schedule=zero-bubble,zero=2)", 4}};

/// And it says the same losses and scores.
TEST(ExactTest, EveryModeTrainsTheBitsOfSingle) {
  for (const auto& training : {lenet_training(), resnet_training()}) {
    std::vector<double> expected_words, words;
    const auto expected = train(training, {"single"}, 0, kSteps, {}, &expected_words);
    for (const auto& one : kCases) {
      EXPECT_EQ(differing(expected, train(training, one, 0, kSteps, {}, &words)), Names())
          << one.mode << ", " << one.world_size << " ranks";
      EXPECT_EQ(words, expected_words) << one.mode << ", " << one.world_size << " ranks";
    }
  }
}

/// Errors are sums of numbers that round, and several outputs make one loss.
class Errors final : public Loss {
 public:
  std::unique_ptr<Metric> metric(int64_t) const override { return make_errors(/*squared_first=*/true); }
  const LossTarget& target() const override { return target_; }

 private:
  torch::Tensor of_targets(const torch::Tensor& outputs, const DeviceBatch& rows) const override {
    return (outputs - rows.columns.at(kTargetColumn).to(outputs.scalar_type())).abs().mean(1);
  }
  LossTarget target_{.field = "age", .columns = "field(name=age)", .outputs = 1};
};

TEST(ExactTest, EveryModeSaysTheSameErrors) {
  const auto training = lenet_training();
  const auto loss = std::make_shared<Errors>();
  const auto said_by = [&](const Case& one) {
    std::vector<double> said;
    run_ranks(
        one.world_size,
        [&](Comm& comm) {
          StrategyHarness trainee(one.mode, [] { return make("mlp", {.classes = 1}); }, comm, kSgd, torch::kFloat32,
                                  torch::kCPU, {}, kShards, {.loss = loss});
          const auto scores = scores_of(trainee, comm, training.samples, *loss, 1, kShards);
          if (comm.rank() == 0) said = scores;
        },
        /*step_seconds=*/60, one.network);
    return said;
  };
  const auto expected = said_by({"single"});
  EXPECT_EQ(expected.size(), 4u);
  for (const auto& one : {Case{"ddp", 2}, Case{"ddp", 4, Network::kGloo}, Case{"ddp", 8}, Case{"dp(devices=cpu:4)"},
                          Case{"pipeline", 2}, Case{"pipeline(data=2)", 4}, Case{"zero(stage=3)", 4}})
    EXPECT_EQ(said_by(one), expected) << one.mode << ", " << one.world_size << " ranks";
}

/// Three units of stages, of 1.9, 1.4 and 1.5 MB: while backward is in one, another one is gathered and a third one
/// sent.
TEST(ExactTest, UnitsOfParametersAreSummedInTheSameTree) {
  auto training = lenet_training();
  training.make = [] { return make("mlp(hidden=600:600:600)"); };
  const auto expected = train(training, {"single"});
  for (const auto& one : {Case{"zero(stage=3)", 1}, Case{"zero(stage=3)", 2, Network::kGloo}, Case{"zero(stage=3)", 4},
                          Case{"zero(stage=3)", 8}})
    EXPECT_EQ(differing(expected, train(training, one)), Names()) << one.world_size << " ranks";
}

TEST(ExactTest, WithoutItTheBitsDiffer) {
  const auto training = lenet_training();
  const auto state_of = [&](const std::string& mode, int ranks) {
    StateDict result;
    run_ranks(ranks, [&](Comm& comm) {
      StrategyHarness trainee(mode, training.make, comm, kSgd, torch::kFloat32);
      for (int64_t i = 0; i < kSteps; ++i) trainee.strategy->step(trainee.part(training.samples, kBatch, i));
      auto all = trainee.strategy->state();
      if (comm.rank() == 0) result = std::move(all);
    });
    return result;
  };
  EXPECT_NE(differing(state_of("single", 1), state_of("ddp", 4)), Names());
}

/// Optimisers by slices: every element is computed in the same place of a vector.
TEST(ExactTest, EveryOptimizerTrainsTheBitsOfSingle) {
  auto training = lenet_training();
  for (const std::string spec : {"adamw", "adam", "sgd(nesterov=true)", "lamb"}) {
    training.options.spec = spec;
    training.options.learning_rate = 0.003;
    const auto expected = train(training, {"single"});
    const std::vector<Case> cases{{"ddp", 2},           {"pipeline", 2},      {"zero", 4},
                                  {"zero(stage=2)", 2}, {"zero(stage=3)", 4}, {"pipeline(data=2,zero=1)", 4}};
    for (const auto& one : cases)
      EXPECT_EQ(differing(expected, train(training, one)), Names()) << one.mode << ", " << spec;
  }
}

TEST(ExactTest, ARunGoesOnInAnotherModeAndWorldSizeWithTheSameBits) {
  const auto training = resnet_training();
  const auto expected = train(training, {"single"});
  const std::vector<Case> cases{{"single"}, {"ddp", 4}, {"pipeline(data=2)", 4}, {"zero", 2},
                                {"dp"},     {"mp", 2},  {"zero(stage=3)", 4}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto &first = cases[i], &second = cases[(i + 1) % cases.size()];
    const auto state = train(training, first, 0, 1);
    EXPECT_EQ(differing(expected, train(training, second, 1, kSteps, state)), Names())
        << first.mode << ", then " << second.mode;
  }
}

/// With momentum m the running mean of one step from 0 is m times the mean of the shards' means.
TEST(ExactTest, RunningStatisticsMoveOnceAStepByTheMeanOfTheShards) {
  const auto training = resnet_training();
  auto model = make_resnet();
  model->train();
  std::vector<torch::Tensor> means;
  for (int shard = 0; shard < kShards; ++shard) {
    auto& conv = *std::dynamic_pointer_cast<torch::nn::Conv2dImpl>(model->named_children()["conv"]);
    const auto maps = conv.forward(training.samples.images.narrow(0, shard * 2, 2));
    means.push_back(maps.mean({0, 2, 3}));
  }
  const auto expected = 0.1 * torch::stack(means).mean(0);
  for (const auto& one : {Case{"single"}, Case{"ddp", 4}, Case{"dp(devices=cpu:8)"}}) {
    const auto state = train(training, one, 0, 1);
    EXPECT_TRUE(state.at("model.norm.running_mean").allclose(expected, 1e-4, 1e-6)) << one.mode;
    EXPECT_EQ(state.at("model.norm.num_batches_tracked").item<int64_t>(), 1) << one.mode;
  }
}

/// With the head, the token and the layer scale as random numbers: zeros would hide what comes before them.
Training patches_training(const std::string& arch) {
  auto samples = random_samples(kSamples, kGrey, 4);
  samples.images = samples.images.to(torch::kFloat32);
  const auto make_patches = [arch] {
    return in_turn([&] {
      auto model = make_model_of(arch, kGrey);
      const at::NoGradGuard no_grad;
      for (auto& parameter : model->parameters())
        if (parameter.abs().max().item<double>() < 1e-4) parameter.normal_(0, 0.1);
      return model;
    });
  };
  return {make_patches, samples, {.learning_rate = 1e-3, .weight_decay = 1e-2, .spec = "adamw"}};
}

/// Attention, LayerNorm, maps whose channels lie last, and masks that belong to rows.
TEST(ExactTest, TransformersAndConvNextsThatDropTrainTheBitsOfSingle) {
  const std::vector<Case> cases{{"ddp", 4},
                                {"ddp", 2, Network::kGloo},
                                {"dp(devices=cpu:4)"},
                                {"mp", 4},
                                {"pipeline(schedule=interleaved)", 2},
                                {"pipeline(schedule=zero-bubble,recompute=except-last)", 2},
                                {"pipeline(recompute=always,data=2)", 4},
                                {"zero(stage=3)", 2},
                                {"pipeline(data=2,schedule=zero-bubble,zero=2)", 4}};
  for (const std::string arch : {"vit(patch=7,width=16,depth=3,heads=2,mlp=24,dropout=0.2,drop-path=0.3)",
                                 "convnext(widths=8:16,depths=2:2,drop-path=0.4)"}) {
    const auto training = patches_training(arch);
    const auto expected = train(training, {"single"});
    EXPECT_NE(differing(expected,
                        train(patches_training(arch.substr(0, arch.rfind("drop-path")) + "drop-path=0)"), {"single"})),
              Names());
    for (const auto& one : cases)
      EXPECT_EQ(differing(expected, train(training, one)), Names()) << arch << ": " << one.mode;
    const auto state = train(training, {"pipeline", 2}, 0, 1);
    EXPECT_EQ(differing(expected, train(training, {"ddp", 2}, 1, kSteps, state)), Names()) << arch;
  }
}

/// In mp one rank works at a time, so that ranks may draw from one generator.
TEST(ExactTest, DropoutDrawsTheSameNumbersForAShardInEveryMode) {
  auto training = resnet_training();
  training.make = make_dropout;
  const auto expected = train(training, {"single"});
  const auto without = train(resnet_training(), {"single"});
  EXPECT_NE(differing(expected, without), Names());
  for (const auto& one : {Case{"single"}, Case{"mp", 2, Network::kGloo}}) {
    const auto state = train(training, one, 0, 1);
    at::manual_seed(77);  // somebody else draws
    torch::rand({3});
    EXPECT_EQ(differing(expected, train(training, one, 1, kSteps, state)), Names()) << one.mode;
  }
}

TEST(ExactTest, ThreadsThatWouldShareRandomNumbersAreRefused) {
  auto training = resnet_training();
  training.make = make_dropout;
  for (const auto& one : {Case{"ddp", 2}, Case{"dp"}, Case{"dp(devices=cpu:1)"}})
    EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { train(training, one); }),
              "--exact: the model draws random numbers, as dropout does, and all threads of this process draw from the "
              "same; expected ranks that are processes (--hosting processes, and not --mode dp)")
        << one.mode;
}

TEST(ExactTest, ModesSayWhichShardsTheyCannotDivide) {
  const auto mesh_error = [](const std::string& text, int ranks) {
    return message_of(ErrorKind::kConfig, [&] {
      plan_of(parse_spec("mode", text), {.ranks = ranks, .batch_size = 16, .micro_shards = kShards, .gpus = 0});
    });
  };
  EXPECT_EQ(mesh_error("ddp", 3), "--mode ddp: 3 ranks with --exact 8; expected a number of ranks that divides 8");
  EXPECT_EQ(mesh_error("ddp", 16), "--mode ddp: 16 ranks with --exact 8; expected a number of ranks that divides 8");
  EXPECT_EQ(mesh_error("dp(devices=cpu:3)", 1),
            "--mode dp: 3 replicas with --exact 8; expected a number of replicas that divides 8");
  EXPECT_EQ(mesh_error("pipeline(data=3)", 6),
            "--mode pipeline: 3 copies with --exact 8; expected a number of copies that divides 8");
  EXPECT_EQ(mesh_error("ddp(accumulate=2)", 2),
            "--mode ddp: accumulate is 2 with --exact 8 over 2 ranks; expected 4, a shard each, or no accumulate");
  EXPECT_EQ(mesh_error("pipeline(micro-batches=4)", 2),
            "--mode pipeline: micro-batches is 4 with --exact 8; expected 8, a shard each, or no micro-batches");
  EXPECT_EQ(mesh_error("ddp(sync-bn=true)", 2),
            "--mode ddp: sync-bn is true with --exact 8; expected one of them: with "
            "--exact BatchNorm normalises by a shard");
  EXPECT_EQ(mesh_error("ddp(compress=fp16)", 2),
            "--mode ddp: compress is fp16 with --exact 8; expected one of them: compressed gradients have an error");
}

}  // namespace
}  // namespace penstock
