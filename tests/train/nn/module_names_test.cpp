// Fine-tuning: layers by name, frozen ones in every mode, and a learning rate by layer.
#include "train/nn/module_names.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"

namespace penstock {
namespace {

using testing::HasSubstr;

constexpr ModelShape kOf20{.channels = 1, .height = 20, .width = 20, .classes = 4};
const OptimizerOptions kDecayed{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-2};

std::unique_ptr<Model> make_lenet_of_20() { return make("lenet", kOf20); }

/// The names of the frozen parameters, without those that begin like an earlier one.
std::vector<std::string> frozen_after(const std::string& arch, const std::string& list) {
  const auto model = make(arch, kOf20);
  freeze_layers(*model, list);
  std::vector<std::string> names;
  for (const auto& item : model->named_parameters())
    if (!item.value().requires_grad()) names.push_back(item.key());
  return names;
}

TEST(LayersTest, ABlockOrAModuleIsNamed) {
  EXPECT_EQ(frozen_after("resnet18", "stem"), (std::vector<std::string>{"conv1.weight", "bn1.weight", "bn1.bias"}));
  EXPECT_EQ(frozen_after("resnet18", "conv1"), (std::vector<std::string>{"conv1.weight"}));
  EXPECT_EQ(frozen_after("resnet18", "layer2.0.downsample,head"),
            (std::vector<std::string>{"layer2.0.downsample.0.weight", "layer2.0.downsample.1.weight",
                                      "layer2.0.downsample.1.bias", "fc.weight", "fc.bias"}));
  EXPECT_EQ(frozen_after("mlp(hidden=8:8:8:8:8:8:8:8:8:8)", "fc1").size(), 2U);  // not fc10
  EXPECT_EQ(frozen_after("lenet", ""), std::vector<std::string>());
  EXPECT_EQ(head_modules(*make("resnet18", kOf20)), (std::vector<std::string>{"fc"}));
}

class NoBlocks final : public Model {};

TEST(LayersTest, ANewHeadIsForModelsOfWhichSomethingIsLeft) {
  EXPECT_EQ(new_head_modules(*make("lenet", kOf20)), (std::vector<std::string>{"fc3"}));
  EXPECT_EQ(message_of(ErrorKind::kConfig, [] { new_head_modules(TinyNorm()); }),
            "--new-head: all parameters are in the last block (norm, fc, idle), none would be taken from --pretrained; "
            "expected a model of several blocks");
  EXPECT_EQ(message_of(ErrorKind::kBug, [] { head_modules(NoBlocks()); }),
            "model: has no blocks; expected a constructor that calls add_block()");
}

TEST(LayersTest, UnknownLayersListThoseThatExist) {
  const auto refusal = [](const std::string& list) {
    return message_of(ErrorKind::kConfig, [&] { frozen_after("resnet18", list); });
  };
  EXPECT_EQ(refusal("layer1,leyer2"),
            "--freeze: unknown layer \"leyer2\"; did you mean \"layer2\"? known: stem (conv1, bn1), layer1, layer2, "
            "layer3, layer4, head (fc)");
  EXPECT_EQ(refusal("layer1,stem,layer1"), "--freeze is layer1,stem,layer1: layer1 is given twice; expected it once");
  EXPECT_THAT(refusal("layer1,"), HasSubstr("unknown layer \"\""));
  EXPECT_THAT(refusal("layer1.0.conv1.weight"), HasSubstr("unknown layer"));
  EXPECT_EQ(refusal("stem,layer1,layer2,layer3,layer4,head"),
            "--freeze is stem,layer1,layer2,layer3,layer4,head: no parameter would be trained; expected fewer layers");
}

TEST(LayersTest, FactorsAreReadAndWhatIsWrongIsNamed) {
  const auto model = make("lenet", kOf20);
  freeze_layers(*model, "conv1");
  EXPECT_EQ(rate_factors(*model, parse_layer_rates("conv2=0.1,fc3=1e1")),
            (std::map<std::string, double>{
                {"conv2.weight", 0.1}, {"conv2.bias", 0.1}, {"fc3.weight", 10}, {"fc3.bias", 10}}));
  EXPECT_TRUE(rate_factors(*model, parse_layer_rates("")).empty());
  const auto refusal = [&](const std::string& list) {
    return message_of(ErrorKind::kConfig, [&] { rate_factors(*model, parse_layer_rates(list)); });
  };
  for (const char* item : {"fc3", "fc3=", "fc3=x", "fc3=-1", "fc3=0", "fc3=inf", "fc3=nan", "fc3=1x"})
    EXPECT_THAT(refusal(item), HasSubstr(concat("--layer-lr: \"", item, "\"; expected LAYER=FACTOR"))) << item;
  EXPECT_THAT(refusal("fc4=1"), HasSubstr("--layer-lr: unknown layer \"fc4\""));
  EXPECT_THAT(refusal("fc3=1,fc3=2"), HasSubstr("fc3.weight is in fc3 and in fc3; expected it in one"));
  EXPECT_THAT(refusal("conv1=0.1"), HasSubstr("conv1 has no parameter that is trained"));
}

class FineTuningContractTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Comm> comm_ = make_self_comm();
  Samples samples_ = random_samples(16, {1, 12, 12, 4}, 5);
};
INSTANTIATE_TEST_SUITE_P(Modes, FineTuningContractTest, testing::ValuesIn(StrategyRegistry::names()));

TEST_P(FineTuningContractTest, FrozenLayersStayAsTheyAre) {
  const auto make_frozen = [] {
    auto model = std::make_unique<TinyNorm>();
    model->freeze("norm");
    return model;
  };
  StrategyHarness one(GetParam(), make_frozen, *comm_, kDecayed);
  const auto before = one.strategy->state();
  one.strategy->step(one.part(samples_, 16, 0));
  auto batch = one.part(samples_, 16, 0);
  one.strategy->evaluate(batch);  // changes to evaluation mode, and back
  one.strategy->step(one.part(samples_, 16, 0));
  const auto after = one.strategy->state();
  for (const char* name : {"model.norm.weight", "model.norm.bias", "model.norm.running_mean", "model.norm.running_var",
                           "model.norm.num_batches_tracked", "optimizer.momentum.norm.weight"})
    EXPECT_TRUE(after.at(name).equal(before.at(name))) << name;
  for (const auto& item : one.model->named_parameters())
    EXPECT_EQ(item.value().grad().defined(), !item.key().starts_with("norm")) << item.key();
  EXPECT_FALSE(after.at("model.fc.weight").equal(before.at("model.fc.weight")));
}

TEST_P(FineTuningContractTest, ACheckpointDoesNotKnowWhatWasFrozen) {
  const auto trained = [&](const std::string& frozen) {
    const auto make_model = [frozen] {
      auto model = std::make_unique<TinyNorm>();
      if (!frozen.empty()) model->freeze(frozen);
      return model;
    };
    return StrategyHarness(GetParam(), make_model, *comm_, kDecayed);
  };
  auto all = trained(""), part = trained("norm");
  all.strategy->step(all.part(samples_, 16, 0));
  const auto state = all.strategy->state();
  EXPECT_GT(state.at("optimizer.momentum.norm.weight").abs().max().item<double>(), 0);
  part.strategy->load_state(state);
  part.strategy->step(part.part(samples_, 16, 0));
  EXPECT_TRUE(part.strategy->state().at("model.norm.weight").equal(state.at("model.norm.weight")));
  EXPECT_EQ(part.strategy->state().at("optimizer.momentum.norm.weight").abs().max().item<double>(), 0);
  all.strategy->load_state(part.strategy->state());
}

TEST_P(FineTuningContractTest, AFactorScalesTheStepsOfItsLayer) {
  const auto step_of = [&](const std::map<std::string, double>& factors) {
    Recorder recorder;
    const auto model = make("lenet", kOf20);
    model->to(torch::kFloat64);
    const auto strategy =
        StrategyRegistry::make(parse_spec("mode", GetParam()), StrategyContext{*model,
                                                                               *comm_,
                                                                               torch::kCPU,
                                                                               {.learning_rate = 0.1, .momentum = 0.9},
                                                                               recorder,
                                                                               {},
                                                                               factors,
                                                                               {},
                                                                               make_lenet_of_20});
    const auto samples = random_samples(8, kOf20, 3);
    auto before = strategy->state();
    strategy->set_learning_rate(0.02);
    strategy->step(part_of(samples, 8, 0, 0, 1));
    for (auto& [name, tensor] : before) tensor = strategy->state().at(name) - tensor;
    return before;
  };
  const auto model = make("lenet", kOf20);
  const auto plain = step_of({}), scaled = step_of(rate_factors(*model, parse_layer_rates("conv2=0.5,fc3=4")));
  for (const auto& [name, step] : plain) {
    const double factor = name.starts_with("model.conv2") ? 0.5 : name.starts_with("model.fc3") ? 4 : 1;
    EXPECT_TRUE(scaled.at(name).allclose(step * factor, 1e-10, 1e-12)) << name;
  }
}

TEST(FineTuningTest, RanksReachTheParametersOfOne) {
  const auto samples = random_samples(13, {1, 12, 12, 4}, 7);
  const auto state_of = [&](const std::string& mode, Comm& comm) {
    Recorder recorder;
    TinyNorm model;
    model.to(torch::kFloat64);
    {
      at::NoGradGuard no_grad;
      for (auto& parameter : model.parameters()) parameter.fill_(0.01);
    }
    model.freeze("norm");
    const auto strategy = StrategyRegistry::make(
        parse_spec("mode", mode),
        StrategyContext{
            model, comm, torch::kCPU, kDecayed, recorder, {}, rate_factors(model, parse_layer_rates("fc=3"))});
    for (int64_t i = 0; i < 3; ++i)
      strategy->step(part_of(samples, 5, i, strategy->data_rank(), strategy->data_world_size()));
    return strategy->state();
  };
  const auto alone = make_self_comm();
  const auto expected = state_of("single", *alone);
  for (const int world_size : {2, 3})
    run_ranks(world_size, [&](Comm& comm) {
      const auto state = state_of("ddp", comm);  // at rank 0
      if (comm.rank() != 0) return;
      EXPECT_LE(relative_difference(expected, state), 1e-12) << world_size << " ranks";
    });
}

}  // namespace
}  // namespace penstock
