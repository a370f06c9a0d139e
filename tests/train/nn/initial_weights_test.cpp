// WeightStream: the weights of a model that was made whole, without the memory of one.
#include "train/nn/initial_weights.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "tests/train/allocation_peak.h"
#include "tests/train/model_shapes.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/nn/module_names.h"

namespace penstock {
namespace {

constexpr ModelShape kOddGrey{.channels = 1, .height = 18, .width = 29, .classes = 10};
const std::string kSixWideLayers =
    "mlp(hidden=522:522:522:522:522:522)";  // more than 1 MiB each: each is a unit of zero

std::unique_ptr<Model> made(const std::string& arch) {
  at::manual_seed(1);
  return ModelRegistry::make(parse_spec("arch", arch), shape_for(arch, kOddGrey));
}

/// The model afterwards has names and sizes alone.
std::unique_ptr<Model> streamed(const std::string& arch, const WeightStream::Use& use) {
  WeightStream stream(use);
  auto model = made(arch);
  stream.finish(*model);
  return model;
}

int64_t largest_bytes(const Model& model) {
  int64_t largest = 0;
  for (const auto& parameter : model.parameters())
    largest = std::max(largest, static_cast<int64_t>(parameter.nbytes()));
  return largest;
}

class WeightStreamTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Archs, WeightStreamTest, testing::ValuesIn(ModelRegistry::names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');  // names of tests have no hyphens
  return name;
});

TEST_P(WeightStreamTest, GivesEveryTensorOnceWithTheBitsOfAWholeModel) {
  const auto whole = made(GetParam());
  const auto next = torch::rand({3});
  const auto expected = own_model(*whole);
  size_t count = 0;
  AllocationPeak peak;
  std::unique_ptr<Model> outline;
  peak.count([&] {
    outline = streamed(GetParam(), [&](const std::string& name, const torch::Tensor& tensor) {
      ++count;
      ASSERT_TRUE(expected.contains("model." + name)) << name;
      EXPECT_TRUE(tensor.equal(expected.at("model." + name))) << name;
    });
  });
  EXPECT_EQ(count, expected.size());
  EXPECT_TRUE(torch::rand({3}).equal(next));
  for (const auto& item : outline->named_parameters()) {
    EXPECT_EQ(item.value().storage().nbytes(), 0u) << item.key();
    EXPECT_EQ(item.value().sizes(), expected.at("model." + item.key()).sizes());
  }
  // Others are whole until they are made. Tensors of norms stay until then too: 0.4 MB of a ResNet-50.
  const std::string& arch = GetParam();
  if (arch == "mlp" || arch.find("resnet") != std::string::npos || arch.starts_with("vit") ||
      arch.starts_with("convnext")) {
    EXPECT_LE(peak.bytes(), largest_bytes(*whole) + 1'000'000);
  }
}

TEST(WeightStreamOfAPluginTest, AModelThatSaysNothingIsWholeUntilItIsMade) {
  at::manual_seed(1);
  const TinyNorm whole;
  const auto expected = own_model(whole);
  size_t count = 0;
  WeightStream stream([&](const std::string& name, const torch::Tensor& tensor) {
    ++count;
    EXPECT_TRUE(tensor.equal(expected.at("model." + name))) << name;
  });
  at::manual_seed(1);
  const TinyNorm model;
  EXPECT_EQ(count, 0u);
  stream.finish(model);
  EXPECT_EQ(count, expected.size());
}

TEST(WeightStreamOfAPluginTest, ABufferWithTwoNamesIsGivenUnderBoth) {
  struct Tied final : torch::nn::Module {
    Tied() { register_buffer("out", register_buffer("in", torch::rand({2, 2}))); }
  };
  std::map<std::string, torch::Tensor> given;
  WeightStream stream([&](const std::string& name, const torch::Tensor& tensor) { given[name] = tensor.clone(); });
  stream.finish(Tied());
  ASSERT_EQ(given.size(), 2u);
  EXPECT_TRUE(given["in"].equal(given["out"]));
}

/// A strategy over an outline, and its stream of weights.
std::unique_ptr<Strategy> make_over(const std::string& mode, const std::string& arch, std::unique_ptr<Model>& outline,
                                    Comm& comm, Recorder& recorder) {
  static std::mutex mutex;  // weights come from the random numbers of the process
  const auto weights = [arch](const WeightStream::Use& use) {
    const std::lock_guard lock(mutex);
    return streamed(arch, use);
  };
  outline = weights([](const auto&, const auto&) {});
  StrategyContext context{*outline, comm, torch::kCPU, {.learning_rate = 0.05}, recorder};
  context.input_sizes = {8, kOddGrey.channels, kOddGrey.height, kOddGrey.width};
  context.weights = [weights](const UseTensor& use) { weights(use); };
  return StrategyRegistry::make(parse_spec("mode", mode), context);
}

struct PartCase {
  std::string mode;
  int ranks;
};

TEST(WeightsOfPartsTest, RanksStartFromTheWeightsOfSingle) {
  const auto expected = own_model(*made("lenet(batch-norm=true)"));
  for (const auto& [mode, ranks] :
       {PartCase{"mp", 3}, PartCase{"mp(balance=time)", 2}, PartCase{"pipeline(schedule=interleaved)", 2},
        PartCase{"pipeline(data=2,zero=2)", 4}, PartCase{"zero(stage=3)", 3},
        PartCase{"zero(stage=3,sync-bn=true)", 2}})
    for (const auto network : {Network::kGloo, Network::kThreads}) {
      const auto body = [&, mode = mode](Comm& comm) {
        Recorder recorder;
        std::unique_ptr<Model> outline;
        const auto strategy = make_over(mode, "lenet(batch-norm=true)", outline, comm, recorder);
        auto state = strategy->state();
        if (comm.rank() != 0) return;
        std::erase_if(state, [](const auto& item) { return item.first.starts_with("optimizer."); });
        EXPECT_EQ(relative_difference(expected, state), 0) << mode;
      };
      run_ranks(ranks, body, /*step_seconds=*/60, network);
    }
}

/// phi: the bytes of the model. A rank has a sixth of the parameters, of the gradients' slices where there are any, and
/// of the momentum; and while it is made, a unit and a layer.
TEST(WeightsOfPartsTest, NoRankHasTheWholeModelAtAnyTime) {
  const auto whole = made(kSixWideLayers);
  const int64_t phi = 4 * count_parameters(*whole).all, layer = largest_bytes(*whole);
  const int64_t bound = 3 * phi / 6 + 2 * layer + 100'000;
  ASSERT_GT(phi, bound);
  for (const std::string mode : {"mp", "zero(stage=3)"})
    run_ranks(
        6,
        [&](Comm& comm) {
          AllocationPeak peak;
          peak.count([&] {
            Recorder recorder;
            std::unique_ptr<Model> outline;
            make_over(mode, kSixWideLayers, outline, comm, recorder);
          });
          EXPECT_LE(peak.bytes(), bound) << mode << ", rank " << comm.rank();
        },
        /*step_seconds=*/60, Network::kThreads);
}

}  // namespace
}  // namespace penstock
