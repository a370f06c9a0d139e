// Models: the contract of every registered model, and the shapes and initialisation of each.
#include "train/nn/model.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <limits>
#include <utility>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/model_shapes.h"
#include "train/nn/pretrained.h"
#include "train/tensor/tensor_file.h"

namespace penstock {
namespace {

using testing::AllOf, testing::HasSubstr;

std::unique_ptr<Model> model_of(const std::string& spec, const ModelShape& shape = {}) {
  return ModelRegistry::make(parse_spec("arch", spec), shape);
}

/// For pictures of `shape`, or of the next larger one that the model takes.
std::unique_ptr<Model> fitting_model(const std::string& arch, const ModelShape& shape = {}) {
  return model_of(arch, shape_for(arch, shape));
}

torch::Tensor images_for(const std::string& arch, int64_t rows, const ModelShape& shape) {
  const auto fitting = shape_for(arch, shape);
  return torch::rand({rows, fitting.channels, fitting.height, fitting.width});
}

int64_t parameter_count(const Model& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

constexpr ModelShape kColour{.channels = 3, .height = 33, .width = 40, .classes = 7};

TEST(ModelContractTest, BlocksNameEveryParameterExactlyOnce) {
  for (const auto& arch : ModelRegistry::names()) {
    const auto model = fitting_model(arch, kColour);
    std::multiset<std::string> covered, all;
    for (const auto& block : model->blocks()) {
      EXPECT_FALSE(block.name.empty()) << arch;
      for (const auto& module : block.modules) {
        if (model->named_parameters().contains(module))
          covered.insert(module);
        else
          for (const auto& item : model->named_modules("", /*include_self=*/false)[module]->named_parameters())
            covered.insert(module + "." + item.key());
      }
    }
    for (const auto& item : model->named_parameters()) all.insert(item.key());
    EXPECT_EQ(covered, all) << arch;
    EXPECT_FALSE(all.empty()) << arch;
  }
}

/// One layer under two names. Optimisers would update it twice per step.
class TiedModel final : public Model {
 public:
  TiedModel() {
    const torch::nn::Linear fc = register_module("in", torch::nn::Linear(2, 2));
    register_module("out", fc);
  }
};

TEST(ModelTest, AParameterWithTwoNamesIsRefused) {
  auto& entries = ModelRegistry::entries();
  entries["tied"].make = [](const Spec&, const ModelShape&) { return std::make_unique<TiedModel>(); };
  const auto message = message_of(ErrorKind::kConfig, [] { make_model_of("tied", {}); });
  entries.erase("tied");
  EXPECT_EQ(
      message,
      "--arch tied: parameters in.weight and out.weight are one tensor; expected one name for it, as a module has "
      "that is registered once and used in several places");
  for (const auto& arch : ModelRegistry::names())
    EXPECT_NO_THROW(make_model_of(arch, shape_for(arch, kColour))) << arch;
}

TEST(ModelContractTest, ForwardIsTheCompositionOfTheBlocks) {
  for (const auto& arch : ModelRegistry::names()) {
    const auto model = fitting_model(arch, kColour);
    model->eval();
    at::NoGradGuard no_grad;
    const auto images = images_for(arch, 2, kColour);
    auto x = images;
    for (const auto& block : model->blocks()) x = block.forward(x);
    EXPECT_EQ(x.sizes(), torch::IntArrayRef({2, 7})) << arch;
    EXPECT_TRUE(model->forward(images).equal(x)) << arch;
  }
}

TEST(ModelContractTest, EveryParameterGetsAGradient) {
  for (const auto& arch : ModelRegistry::names()) {
    const auto model = fitting_model(arch, kColour);
    model->forward(images_for(arch, 4, kColour)).pow(2).sum().backward();
    for (const auto& item : model->named_parameters())
      EXPECT_EQ(item.value().grad().defined(), item.value().requires_grad()) << arch << " " << item.key();
  }
}

TEST(ModelContractTest, TheSeedDecidesTheInitialWeights) {
  const auto weights = [](const std::string& arch, int seed) {
    at::manual_seed(seed);
    return fitting_model(arch)->parameters();
  };
  for (const auto& arch : ModelRegistry::names()) {
    const auto one = weights(arch, 1), again = weights(arch, 1), other = weights(arch, 2);
    bool is_other = false;
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(one[i].equal(again[i])) << arch;
      is_other |= !one[i].equal(other[i]);
    }
    EXPECT_TRUE(is_other) << arch;
  }
}

TEST(ModelTest, ParameterCountsAreThePublishedOnes) {
  EXPECT_EQ(parameter_count(*model_of("lenet")), 61'706);
  EXPECT_EQ(parameter_count(*model_of("mlp(hidden=256:128)")), 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
  const ModelShape imagenet{.channels = 3, .height = 224, .width = 224, .classes = 1000};
  EXPECT_EQ(parameter_count(*model_of("resnet18", imagenet)), 11'689'512);
  EXPECT_EQ(parameter_count(*model_of("resnet50", imagenet)), 25'557'032);
  const ModelShape cifar{.channels = 3, .height = 32, .width = 32};
  EXPECT_EQ(parameter_count(*model_of("bag-of-tricks-resnet(whiten=false)", cifar)), 6'573'120);
}

TEST(ModelTest, ResNetConvolutionsStartWithTheVarianceOfHeEtAl) {
  const auto model = model_of("resnet18", kColour);
  const auto weight = model->named_parameters()["layer3.1.conv2.weight"];
  EXPECT_NEAR(weight.std().item<double>(), std::sqrt(2.0 / (256 * 9)), 2e-4);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 2e-4);
}

TEST(ModelTest, SmallestPicturesWorkAndSmallerOnesAreNamed) {
  EXPECT_EQ(model_of("lenet", {.height = 12, .width = 12})->forward(torch::rand({1, 1, 12, 12})).size(1), 10);
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { model_of("lenet", {.height = 11, .width = 28}); }),
              AllOf(HasSubstr("arch lenet"), HasSubstr("28 x 11"), HasSubstr("12 x 12")));
  EXPECT_EQ(model_of("bag-of-tricks-resnet", {.height = 8, .width = 8})->forward(torch::rand({2, 1, 8, 8})).size(1),
            10);
  EXPECT_EQ(message_of(ErrorKind::kConfig, [] { model_of("bag-of-tricks-resnet", {.height = 7, .width = 28}); }),
            "arch bag-of-tricks-resnet: pictures are 28 x 7; expected at least 8 x 8");
  for (const char* arch : {"resnet18", "resnet50"}) {
    EXPECT_EQ(model_of(arch, {.height = 17, .width = 17})->forward(torch::rand({2, 1, 17, 17})).size(1), 10);
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { model_of(arch, {.height = 28, .width = 16}); }),
                AllOf(HasSubstr(arch), HasSubstr("16 x 28"), HasSubstr("17 x 17")));
  }
}

TEST(ModelTest, TheWhiteningFiltersOfTheBagOfTricksComeFromPicturesAndAreNotTrained) {
  const ModelShape cifar{.channels = 3, .height = 32, .width = 32};
  const auto model = model_of("bag-of-tricks-resnet(width=0.25)", cifar);
  EXPECT_EQ(model->initial_image_count(), 10'000);
  at::manual_seed(3);
  const auto images = torch::avg_pool2d(torch::randn({200, 3, 36, 36}), 5, 1) * 3;  // neighbouring pixels are alike
  bool is_given = false;
  const auto weights = model->initial_weights([&] { return std::exchange(is_given, true) ? torch::Tensor() : images; });
  ASSERT_EQ(weights.size(), 1U);
  const auto filters = model->named_parameters()[weights[0].first];
  ASSERT_EQ(weights[0].second.sizes(), filters.sizes());
  EXPECT_FALSE(filters.requires_grad());
  const auto rows = torch::conv2d(images, weights[0].second).permute({1, 0, 2, 3}).reshape({27, -1});
  const auto products = rows.mm(rows.t()) / rows.size(1);
  const auto squares = products.diagonal();  // v / (v + 0.01) for the eigenvalue v
  EXPECT_LT((products - squares.diag()).abs().max().item<double>(), 1e-2);
  EXPECT_GT(squares.max().item<double>(), 0.9);
  EXPECT_LT(squares.max().item<double>(), 1);
  const auto plain = model_of("bag-of-tricks-resnet(width=0.25,whiten=false)", cifar);
  EXPECT_EQ(plain->initial_image_count(), 0);
  for (const auto& item : plain->named_parameters())
    EXPECT_EQ(item.value().requires_grad(), !item.key().ends_with("norm.weight")) << item.key();
}

TEST(ModelTest, BadNamesAndKeysAreNamed) {
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { model_of("lenett"); }),
              AllOf(HasSubstr("lenett"), HasSubstr("resnet50")));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { model_of("mlp(hiden=3)"); }),
              AllOf(HasSubstr("hiden"), HasSubstr("hidden")));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { model_of("mlp(hidden=128:0)"); }), HasSubstr("hidden has 0"));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { model_of("mlp(hidden=1.5)"); }), HasSubstr("hidden has 1.5"));
  EXPECT_EQ(message_of(ErrorKind::kConfig, [] { model_of("bag-of-tricks-resnet(width=65)"); }),
            "arch bag-of-tricks-resnet: width is 65; expected more than 0, up to 64");
}

class PretrainedTest : public testing::Test {
 protected:
  PretrainedTest() {
    for (const auto& item : source_->named_parameters()) tensors_[item.key()] = item.value().detach().clone();
    for (const auto& item : source_->named_buffers()) tensors_[item.key()] = item.value().clone();
  }

  void load() {
    const auto path = folder_.path() / "weights.safetensors";
    write_tensors(path, tensors_);
    load_pretrained(*model_, path);
  }
  std::string refusal() {
    return message_of(ErrorKind::kCorrupt, [&] { load(); });
  }

  TemporaryFolder folder_{"pretrained"};
  std::unique_ptr<Model> source_ = model_of("resnet18", kColour), model_ = model_of("resnet18", kColour);
  std::map<std::string, torch::Tensor> tensors_;
};

TEST_F(PretrainedTest, EveryTensorIsCopied) {
  tensors_["bn1.running_var"].fill_(3);
  tensors_.erase("bn1.num_batches_tracked");
  load();
  for (const auto& item : model_->named_parameters())
    EXPECT_TRUE(item.value().equal(tensors_[item.key()])) << item.key();
  EXPECT_TRUE(model_->named_buffers()["bn1.running_var"].eq(3).all().item<bool>());
}

TEST_F(PretrainedTest, ThreeMismatchesAreNamedAndTheOthersCountedAndNothingIsChanged) {
  const auto before = model_->named_parameters()["conv1.weight"].detach().clone();
  tensors_.erase("layer1.0.conv1.weight");
  tensors_["module.stranger"] = torch::ones({1});
  tensors_["fc.weight"] = torch::zeros({1000, 512});
  tensors_["bn1.bias"] = torch::zeros({64}, torch::kInt64);
  EXPECT_THAT(refusal(), HasSubstr("weights.safetensors: bn1.bias is Long, the model's is Float, "
                                   "layer1.0.conv1.weight is missing, fc.weight is 1000 x 512, the model's is 7 x 512, "
                                   "module.stranger is unexpected; expected"));
  EXPECT_TRUE(model_->named_parameters()["conv1.weight"].equal(before));
}

TEST_F(PretrainedTest, ATensorThatTheModelLacksIsNamed) {
  tensors_["module.stranger"] = torch::ones({1});
  EXPECT_THAT(refusal(), HasSubstr("weights.safetensors: module.stranger is unexpected; expected"));
}

TEST_F(PretrainedTest, APrefixOfAllNamesIsTakenOff) {
  for (const std::string prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod."}) {
    std::map<std::string, torch::Tensor> wrapped;
    for (const auto& [name, tensor] : tensors_) wrapped[prefix + name] = tensor;
    const auto path = folder_.path() / "weights.safetensors";
    write_tensors(path, wrapped);
    EXPECT_EQ(prefix_of_wrapper(*model_, path), prefix);
    const auto model = model_of("resnet18", kColour);
    load_pretrained(*model, path);
    EXPECT_TRUE(model->named_parameters()["fc.weight"].equal(tensors_["fc.weight"]));
  }
  write_tensors(folder_.path() / "plain.safetensors", tensors_);
  EXPECT_EQ(prefix_of_wrapper(*model_, folder_.path() / "plain.safetensors"), "");
}

TEST_F(PretrainedTest, WhatTheFileIsInsteadIsSaid) {
  auto grey = tensors_;
  grey["conv1.weight"] = torch::zeros({64, 1, 7, 7});
  tensors_.swap(grey);
  EXPECT_THAT(refusal(), HasSubstr("these are for pictures of 1 channels, and those of --data have 3"));
  tensors_.clear();
  for (const auto& [name, tensor] : grey) tensors_["model." + name] = tensors_["optimizer.momentum." + name] = tensor;
  EXPECT_THAT(refusal(), HasSubstr("; expected model.safetensors of a run; this is a checkpoint, for --resume"));
}

TEST_F(PretrainedTest, ANumberThatIsNotFiniteIsNamedAndNothingIsChanged) {
  const auto before = model_->named_parameters()["conv1.weight"].detach().clone();
  tensors_["fc.weight"] = torch::zeros({7, 512});
  tensors_["fc.weight"][2][5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal(), HasSubstr("weights.safetensors: tensor \"fc.weight\" holds nan at [2, 5]; expected finite"));
  tensors_["fc.weight"][2][5] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal(), HasSubstr("holds -inf at [2, 5]; expected finite weights"));
  EXPECT_TRUE(model_->named_parameters()["conv1.weight"].equal(before));
}

}  // namespace
}  // namespace penstock
