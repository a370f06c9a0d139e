// Mesh: how pipeline and mp lay themselves over ranks and devices, and what of that they refuse.
#include "train/parallel/strategy/mesh.h"

#include <gtest/gtest.h>

#include "core/text.h"
#include "tests/support/testing.h"
#include "train/optimizers/optimizer.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

Mesh mesh(const std::string& mode, const MeshRequest& request) {
  return plan_of(parse_spec("mode", mode), request).mesh;
}

std::string refusal(const std::string& mode, const MeshRequest& request) {
  return message_of(ErrorKind::kConfig, [&] { mesh(mode, request); });
}

TEST(MeshTest, WithoutANumberOfRanksThereAreWholeCopiesOfTwoPartsOrMore) {
  EXPECT_EQ(mesh("pipeline", {.default_ranks = 8}), (Mesh{.pipe = 8}));
  EXPECT_EQ(mesh("pipeline", {.default_ranks = 1}), (Mesh{.pipe = 2}));
  EXPECT_EQ(mesh("pipeline(data=3)", {.default_ranks = 2}), (Mesh{.data = 3, .pipe = 2}));
  EXPECT_EQ(mesh("pipeline(data=3)", {.default_ranks = 8}), (Mesh{.data = 3, .pipe = 2}));
  EXPECT_EQ(mesh("pipeline(data=2)", {.default_ranks = 8}), (Mesh{.data = 2, .pipe = 4}));
  EXPECT_EQ(mesh("pipeline(data=2,cut=fc1:fc2)", {.default_ranks = 8}), (Mesh{.data = 2, .pipe = 3}));
}

TEST(MeshTest, RanksThatAreNoWholeCopiesAreToldWhatMultipliesToWhat) {
  EXPECT_EQ(refusal("pipeline(data=3)", {.ranks = 8}),
            "--mode pipeline: data is 3 with 8 ranks; expected ranks = data x stages, as 3 x 3 = 9");
  EXPECT_EQ(refusal("pipeline(data=3,cut=fc1)", {.ranks = 9}),
            "--mode pipeline: 1 cut with 9 ranks; expected 6 ranks, 2 stages for each of 3 copies of the model");
}

TEST(MeshTest, OnlyCopiesOfAModelCanKeepSlices) {
  EXPECT_EQ(mesh("pipeline(data=2,zero=2)", {.ranks = 4}), (Mesh{.data = 2, .pipe = 2}));
  EXPECT_EQ(
      refusal("pipeline(zero=1)", {.ranks = 2}),
      "--mode pipeline: zero is 1 with one copy of the model; expected data=2 or more, of which each keeps a slice");
  EXPECT_EQ(refusal("pipeline(zero=3,data=2)", {.ranks = 4}),
            "--mode pipeline: zero is 3; expected 0, 1 or 2: every micro-batch would gather the parameters again");
  EXPECT_EQ(refusal("pipeline(zero=-1,data=2)", {.ranks = 4}), "--mode pipeline: zero is -1; expected 0, 1 or 2");
}

/// An optimiser of somebody else's, which does not say that it takes pieces.
const Registered<OptimizerKind> kUnsliced{"unsliced",
                                          {},
                                          "sgd without a trait",
                                          [](const Spec&, const OptimizerContext& context) {
                                            return OptimizerRegistry::make(parse_spec("optimizer", "sgd"), context);
                                          },
                                          {}};

TEST(MeshTest, AnOptimizerOfWholeParametersGetsNoSlices) {
  EXPECT_EQ(mesh("ddp", {.ranks = 2, .optimizer = parse_spec("optimizer", "muon")}), (Mesh{.data = 2}));
  for (const std::string mode : {"zero(stage=2)", "pipeline(data=2,zero=1)"})
    EXPECT_EQ(refusal(mode, {.ranks = 4, .optimizer = parse_spec("optimizer", "muon")}),
              "--mode " + mode +
                  " with --optimizer muon, which needs whole parameters; expected a mode that does not "
                  "cut them into slices, such as ddp");
}

TEST(MeshTest, SlicesAreExactForOptimizersThatTakePieces) {
  for (const std::string optimizer : {"adamw", "lamb"})
    EXPECT_EQ(mesh("pipeline(data=2,zero=1)",
                   {.ranks = 4, .micro_shards = 8, .optimizer = parse_spec("optimizer", optimizer)}),
              (Mesh{.data = 2, .pipe = 2, .micro_shards = 8}));
  EXPECT_EQ(refusal("pipeline(data=2,zero=1)",
                    {.ranks = 4, .micro_shards = 8, .optimizer = parse_spec("optimizer", "unsliced")}),
            "--mode pipeline: zero with --exact 8 and --optimizer unsliced, which gives pieces of parameters other "
            "bits; expected no zero, or another optimizer");
}

TEST(MeshTest, DevicesAreThoseOfAMachinesRanks) {
  EXPECT_EQ(mesh("mp(devices=2:0)", {.gpus = 3}), (Mesh{.pipe = 2, .gpus = {2, 0}}));
  EXPECT_EQ(mesh("pipeline(devices=0:1:2:3,data=2)", {.gpus = 4}), (Mesh{.data = 2, .pipe = 2, .gpus = {0, 1, 2, 3}}));
  EXPECT_EQ(mesh("mp(devices=0:2)", {.ranks = 4, .gpus = 3, .local_ranks = 2}), (Mesh{.pipe = 4, .gpus = {0, 2}}));
  EXPECT_EQ(mesh("mp(devices=cpu:3)", {.gpus = 0}), (Mesh{.pipe = 3}));
}

TEST(MeshTest, DevicesThatAreNotThoseOfTheRanksAreRefused) {
  EXPECT_EQ(refusal("mp(devices=0:2:0)", {.gpus = 3}),
            "--mode mp: devices is 0:2:0, which names GPU 0 twice; expected it once");
  EXPECT_EQ(refusal("pipeline(devices=0:3)", {.gpus = 3}),
            "--mode pipeline: devices is 0:3, and 3 GPUs are visible; expected numbers below 3");
  EXPECT_EQ(refusal("mp(devices=cpu:0)", {.gpus = 0}),
            "--mode mp: devices is cpu:0; expected a number of ranks from 1 to 65536, such as cpu:4");
  EXPECT_EQ(refusal("mp(devices=cpu:3)", {.ranks = 2, .gpus = 0, .local_ranks = 2}),
            "--mode mp: devices is cpu:3 with 2 ranks on this machine; expected 3 ranks, one for each device");
  EXPECT_EQ(refusal("mp(devices=cpu:3,cut=fc1)", {.gpus = 0}),
            "--mode mp: 1 cut with 3 ranks; expected 2 ranks, one for each stage");
}

TEST(MeshTest, MoreMessagesThanThereAreTagsAreRefused) {
  EXPECT_EQ(mesh("pipeline(micro-batches=65536)", {.ranks = 1024}), (Mesh{.pipe = 1024}));
  EXPECT_EQ(refusal("pipeline(micro-batches=65536)", {.ranks = 2048}),
            "--mode pipeline: 65536 micro-batches through 2048 stages; expected 32768 micro-batches or fewer");
}

/// Their ranks choose by local rank.
TEST(MeshTest, ModesWhoseRanksHoldTheWholeModelHaveNoDevices) {
  for (const char* name : {"ddp", "zero", "single"})
    EXPECT_NE(refusal(concat(name, "(devices=0:1)"), {}).find("unknown key \"devices\""), std::string::npos) << name;
}

}  // namespace
}  // namespace penstock
