// Checkpoints: reading gives what was written; a checkpoint that does not fit is refused, and the message names both
// sides.
#include "train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/saved_state.h"
#include "tests/train/small_dataset.h"
#include "train/nn/model.h"
#include "train/nn/pretrained.h"
#include "train/tensor/tensor_file.h"

namespace penstock {
namespace {

CheckpointInfo some_info() {
  CheckpointInfo info;
  info.arch = "lenet";
  info.shape = {1, 28, 28, 10};
  info.position.epoch = 3;
  info.position.batch = 57;
  info.position.step = 3057;
  info.position.loss_sum = 1.0 / 3;
  info.position.correct_count = 12;
  info.position.sample_count = 34;
  info.position.best_accuracy = 0.1 + 0.2;
  info.seed = ~uint64_t{0};
  info.batch_size = 64;
  info.shuffle = "global";
  info.tail = "pad";
  info.dataset_size = 60000;
  info.data = "60000 samples with checksum 3f2a01bc";
  info.world_size = 2;
  info.augment = "normalize";
  return info;
}

StateDict some_state() {
  at::manual_seed(4);
  return {{"model.weight", torch::randn({3, 4})},
          {"model.steps", torch::tensor(int64_t{7})},
          {"model.norm", torch::randn({5}, torch::kFloat64)},
          {"optimizer.momentum.weight", torch::randn({3, 4})}};
}

TEST(CheckpointTest, EveryBitComesBack) {
  const TemporaryFolder folder("checkpoint");
  const auto path = folder.path() / "checkpoint-last.safetensors";
  const auto info = some_info();
  save_checkpoint(path, info, some_state());
  const auto read = load_checkpoint(path);
  EXPECT_EQ(read.info.arch, info.arch);
  EXPECT_EQ(read.info.shape.height, 28);
  EXPECT_EQ(read.info.position.epoch, 3);
  EXPECT_EQ(read.info.position.batch, 57);
  EXPECT_EQ(read.info.position.step, 3057);
  EXPECT_EQ(read.info.position.loss_sum, info.position.loss_sum);
  EXPECT_EQ(read.info.position.best_accuracy, info.position.best_accuracy);
  EXPECT_FALSE(read.info.position.plateau || read.info.position.scale);
  EXPECT_EQ(read.info.seed, info.seed);
  EXPECT_EQ(read.info.world_size, 2);
  const auto state = some_state();
  ASSERT_EQ(read.state.size(), state.size());
  for (const auto& [name, tensor] : state) {
    EXPECT_EQ(read.state.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(read.state.at(name), tensor)) << name;
  }
}

TEST(CheckpointTest, WhatARunHasAdaptedToGoesOn) {
  const TemporaryFolder folder("checkpoint-adapted");
  const auto path = folder.path() / "checkpoint.safetensors";
  CheckpointInfo info = some_info();
  info.position.plateau = PlateauState{.factor = 0.1, .best = 1.0 / 3, .bad_epochs = 2, .cooldown = 1};
  info.position.scale = GradientScale{.scale = 4096, .good_steps = 17, .skipped_steps = 3};
  save_checkpoint(path, info, some_state());
  auto position = load_checkpoint(path).info.position;
  EXPECT_EQ(position.plateau->factor, 0.1);
  EXPECT_EQ(position.plateau->best, 1.0 / 3);
  EXPECT_EQ(position.plateau->bad_epochs, 2);
  EXPECT_EQ(position.plateau->cooldown, 1);
  EXPECT_EQ(position.scale->scale, 4096);
  EXPECT_EQ(position.scale->good_steps, 17);
  EXPECT_EQ(position.scale->skipped_steps, 3);
  info.position.plateau->best.reset();
  save_checkpoint(path, info, some_state());
  EXPECT_FALSE(load_checkpoint(path).info.position.plateau->best);
  info.position.plateau->factor = 2;
  save_checkpoint(path, info, some_state());
  EXPECT_NE(message_of(ErrorKind::kCorrupt, [&] { load_checkpoint(path); }).find("expected a factor of 0 to 1"),
            std::string::npos);
}

TEST(CheckpointTest, NothingStaysAsideAndAnOlderOneIsReplaced) {
  const TemporaryFolder folder("checkpoint-again");
  const auto path = folder.path() / "checkpoint-last.safetensors";
  for (int i = 0; i < 2; ++i) save_checkpoint(path, some_info(), some_state());
  int file_count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++file_count;
  EXPECT_EQ(file_count, 1);
}

TEST(CheckpointTest, AnyTruncationIsCorrupt) {
  const TemporaryFolder folder("checkpoint-cut");
  const auto path = folder.path() / "whole.safetensors", cut = folder.path() / "cut.safetensors";
  save_checkpoint(path, some_info(), some_state());
  const auto size = std::filesystem::file_size(path);
  for (const uintmax_t kept : {uintmax_t{0}, uintmax_t{7}, uintmax_t{100}, size / 2, size - 1}) {
    std::filesystem::copy_file(path, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, kept);
    const auto message = message_of(ErrorKind::kCorrupt, [&] { load_checkpoint(cut); });
    EXPECT_NE(message.find("cut.safetensors"), std::string::npos) << kept << ": " << message;
  }
}

TEST(CheckpointTest, AnyFlippedBitIsCorrupt) {
  const TemporaryFolder folder("checkpoint-flip");
  const auto path = folder.path() / "whole.safetensors", flipped = folder.path() / "flipped.safetensors";
  save_checkpoint(path, some_info(), some_state());
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string key = "penstock.crc32c";  // other programs write files without a checksum
  for (size_t i = 0; i < whole.size(); ++i) {
    if (i >= whole.find(key) && i < whole.find(key) + key.size()) continue;
    std::string bytes = whole;
    bytes[i] ^= 1;
    std::ofstream(flipped, std::ios::binary) << bytes;
    const auto message = message_of(ErrorKind::kCorrupt, [&] { load_checkpoint(flipped); });
    EXPECT_NE(message.find("flipped.safetensors"), std::string::npos) << "byte " << i << ": " << message;
  }
}

TEST(CheckpointTest, WeightsAloneAreNoCheckpoint) {
  const TemporaryFolder folder("checkpoint-weights");
  save_model(folder.path() / "model.safetensors", some_state(), "lenet");
  const auto message = message_of(ErrorKind::kCorrupt, [&] { load_checkpoint(folder.path() / "model.safetensors"); });
  EXPECT_NE(message.find("no checkpoint"), std::string::npos) << message;
}

TEST(CheckpointTest, AFileThatIsNotThereIsAnIoError) {
  message_of(ErrorKind::kIo, [] { load_checkpoint("/nonexistent/checkpoint.safetensors"); });
}

TEST(CheckpointTest, AnotherFormatVersionIsNamed) {
  const TemporaryFolder folder("checkpoint-version");
  const auto path = folder.path() / "new.safetensors";
  write_tensors(path, some_state(), {{"penstock", "{\"format_version\": 9}"}});
  const auto message = message_of(ErrorKind::kCorrupt, [&] { load_checkpoint(path); });
  EXPECT_NE(message.find("format version is 9; expected 1"), std::string::npos) << message;
}

TEST(CheckpointTest, AKeyThatLacksOrIsOfAnotherTypeIsNamed) {
  const TemporaryFolder folder("checkpoint-keys");
  const auto path = folder.path() / "c.safetensors";
  const auto said = [&](const std::string& metadata) {
    write_tensors(path, some_state(), {{"penstock", metadata}});
    return message_of(ErrorKind::kCorrupt, [&] { load_checkpoint(path); });
  };
  EXPECT_NE(said("{}").find("checkpoint metadata: has no key \"format_version\""), std::string::npos) << said("{}");
  const std::string no_arch = said("{\"format_version\": 1}");
  EXPECT_NE(no_arch.find("checkpoint metadata: no key \"arch\"; expected what --save-every writes"), std::string::npos)
      << no_arch;
  const std::string other = said("{\"format_version\": 1, \"arch\": [7]}");
  EXPECT_NE(other.find("checkpoint metadata: arch is [7]"), std::string::npos) << other;
  EXPECT_NE(said("{\"format_version\": 1e999}").find("has the number 1e999, which is too large"), std::string::npos);
  EXPECT_NE(said(std::string(50, '[')).find("JSON nested deeper than 8"), std::string::npos);
}

TEST(CheckpointTest, AnotherModelIsRefusedWithBothSidesNamed) {
  const auto arch = message_of(ErrorKind::kConfig, [] {
    check_same_model("f", some_info(), "resnet18", {1, 28, 28, 10});
  });
  EXPECT_EQ(arch, "--resume f: a checkpoint of arch lenet; expected resnet18, as --arch is");
  const auto shape = message_of(ErrorKind::kConfig, [] {
    check_same_model("f", some_info(), "lenet", {3, 32, 32, 10});
  });
  EXPECT_EQ(
      shape,
      "--resume f: a checkpoint for 10 classes of 1 x 28 x 28; expected 10 classes of 3 x 32 x 32, as the data are");
  EXPECT_NO_THROW(check_same_model("f", some_info(), "lenet", {1, 28, 28, 10}));
}

TEST(CheckpointTest, AnotherOptimizerIsRefusedWithBothSidesNamed) {
  const TemporaryFolder folder("checkpoint-optimizer");
  const auto path = folder.path() / "adamw.safetensors";
  auto info = some_info();
  info.optimizer = "adamw";
  save_checkpoint(path, info, some_state());
  const auto read = load_checkpoint(path).info;
  EXPECT_NO_THROW(check_same_optimizer("f", read, info));
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { check_same_optimizer("f", read, some_info()); }),
            "--resume f: a checkpoint of optimizer adamw; expected sgd, as --optimizer is");
}

/// Earlier versions, which know no other optimiser, read checkpoints of sgd, and these read theirs.
TEST(CheckpointTest, SgdIsWhatACheckpointIsOfThatNamesNoOptimizer) {
  const TemporaryFolder folder("checkpoint-sgd");
  save_checkpoint(folder.path() / "sgd.safetensors", some_info(), some_state());
  const auto metadata = read_tensors(folder.path() / "sgd.safetensors").metadata;
  EXPECT_EQ(metadata.at("penstock").find("optimizer"), std::string::npos);
  EXPECT_EQ(load_checkpoint(folder.path() / "sgd.safetensors").info.optimizer, "sgd");
}

TEST(CheckpointTest, AnAverageOfAnotherKindIsRefusedWithBothSidesNamed) {
  const TemporaryFolder folder("checkpoint-average");
  const auto path = folder.path() / "ema.safetensors";
  auto state = some_state();
  state["average.fc.weight"] = torch::ones({2});
  auto then = some_info(), now = some_info();
  then.average = now.average = "ema";
  save_checkpoint(path, then, state);
  const auto read = load_checkpoint(path);
  EXPECT_NO_THROW(check_same_average("f", read, now));
  now.average = "lookahead";
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { check_same_average("f", read, now); }),
            "--resume f: a checkpoint of average ema; expected lookahead, as --average is");
  save_checkpoint(path, some_info(), state);  // as earlier versions wrote it
  EXPECT_NO_THROW(check_same_average("f", load_checkpoint(path), now));
  save_checkpoint(path, some_info(), some_state());
  EXPECT_EQ(read_tensors(path).metadata.at("penstock").find("average"), std::string::npos);
}

TEST(CheckpointTest, TheMiddleOfAnEpochNeedsTheSameOrder) {
  auto now = some_info();
  now.seed = 1;
  const auto message = message_of(ErrorKind::kConfig, [&] { check_same_order("f", some_info(), now); });
  EXPECT_NE(message.find("--seed 18446744073709551615, which is now 1"), std::string::npos) << message;
  now = some_info();
  now.world_size = 3;
  EXPECT_NO_THROW(check_same_order("f", some_info(), now));
  auto then = some_info();
  then.shuffle = now.shuffle = "rank-local";
  message_of(ErrorKind::kConfig, [&] { check_same_order("f", then, now); });
  then.position.batch = 0;
  EXPECT_NO_THROW(check_same_order("f", then, now));
}

TEST(CheckpointTest, OtherDataAreRefusedWithBothSidesNamed) {
  const TemporaryFolder folder("checkpoint-data");
  save_checkpoint(folder.path() / "f", some_info(), some_state());
  const auto then = load_checkpoint(folder.path() / "f").info;
  EXPECT_NO_THROW(check_same_data("f", then, some_info()));
  auto now = some_info();
  now.data = "60000 samples with checksum 11111111";
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { check_same_data("f", then, now); }),
            "--resume f: a checkpoint of a run on 60000 samples with checksum 3f2a01bc, and --data has 60000 samples "
            "with checksum 11111111; expected the data of that run, or --pretrained with its model.safetensors, which "
            "begins a run on other data");
}

/// Earlier versions did not write down which data a run was on.
TEST(CheckpointTest, ACheckpointThatDoesNotNameItsDataGoesOnWithAny) {
  const TemporaryFolder folder("checkpoint-no-data");
  auto earlier = some_info();
  earlier.data.clear();
  save_checkpoint(folder.path() / "f", earlier, some_state());
  EXPECT_EQ(read_tensors(folder.path() / "f").metadata.at("penstock").find("\"data\""), std::string::npos);
  EXPECT_NO_THROW(check_same_data("f", load_checkpoint(folder.path() / "f").info, some_info()));
}

TEST(SaveModelTest, NamesArePlainAndPretrainedReadsThem) {
  const TemporaryFolder folder("save-model");
  const auto path = folder.path() / "model.safetensors";
  at::manual_seed(1);
  const auto model = ModelRegistry::make(parse_spec("arch", "lenet"), ModelShape{});
  StateDict state{{"optimizer.momentum.conv1.weight", torch::zeros({1})}};
  for (const auto& item : model->named_parameters()) state.emplace("model." + item.key(), item.value());
  save_model(path, state, "lenet");
  const auto read = read_tensors(path);
  EXPECT_TRUE(read.tensors.contains("conv1.weight"));
  EXPECT_EQ(read.tensors.size(), state.size() - 1);
  at::manual_seed(2);
  const auto other = ModelRegistry::make(parse_spec("arch", "lenet"), ModelShape{});
  load_pretrained(*other, path);
  for (const auto& item : model->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), other->named_parameters()[item.key()])) << item.key();
}

}  // namespace
}  // namespace penstock
