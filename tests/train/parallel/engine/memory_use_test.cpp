// Memory: what every mode's tensors take is measured, and is what its formula says; and how that is told.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/run/memory_report.h"
#include "train/tensor/storage.h"

namespace penstock {
namespace {

/// The memory of every rank after two steps.
MemoryOfRanks after_two_steps(const std::string& mode, int world_size, const std::string& arch,
                              const OptimizerOptions& options = kSgd) {
  const auto samples = random_samples(4, kGrey, 3);
  MemoryOfRanks ranks(static_cast<size_t>(world_size));
  const auto body = [&](Comm& comm) {
    StrategyHarness one(mode, make(arch), comm, options);
    for (int step = 0; step < 2; ++step) one.strategy->step(one.part(samples, 4, 0));
    ranks[static_cast<size_t>(comm.rank())] = one.strategy->memory();
  };
  run_ranks(world_size, body, /*step_seconds=*/60, Network::kThreads);
  return ranks;
}

TEST(MemoryTest, AStorageIsCountedOnceAndOneThatWasGivenBackIsNot) {
  const auto one = torch::zeros({10}), other = torch::zeros({4}, torch::kFloat64);
  EXPECT_EQ(detail::storage_bytes({one, one.narrow(0, 2, 3), torch::Tensor(), other}), 10 * 4 + 4 * 8);
  EXPECT_EQ(detail::storage_bytes({one.narrow(0, 2, 3)}), 10 * 4);  // a view keeps all of it
}

struct Expected {
  std::string mode;
  int world_size;
  std::vector<std::string> formulas;  // parameters, gradients, optimizer
};

TEST(MemoryTest, EveryModeTakesWhatItsFormulaSays) {
  const double whole = static_cast<double>(61'706 * sizeof(double));
  for (const auto& [mode, world_size, formulas] :
       {Expected{"single", 1, {"phi", "phi", "phi"}}, Expected{"ddp", 2, {"phi", "phi", "phi"}},
        Expected{"zero", 3, {"phi", "phi", "phi / 3"}}, Expected{"zero(stage=2)", 3, {"phi", "phi / 3", "phi / 3"}},
        Expected{"zero(stage=3)", 3, {"phi / 3", "phi / 3", "phi / 3"}}})
    for (const auto& rank : after_two_steps(mode, world_size, "lenet")) {
      ASSERT_EQ(rank.size(), 3u) << mode;
      for (size_t kind = 0; kind < 3; ++kind) {
        const std::string what = mode + ", " + rank[kind].kind;
        EXPECT_EQ(rank[kind].formula, formulas[kind]) << what;
        EXPECT_NEAR(rank[kind].formula_bytes, whole / (formulas[kind] == "phi" ? 1 : 3), 1e-6) << what;
        // Slices are rounded up, and the state has no padding.
        EXPECT_NEAR(static_cast<double>(rank[kind].bytes), rank[kind].formula_bytes, 2 * sizeof(double)) << what;
        EXPECT_GE(rank[kind].peak_bytes, rank[kind].bytes) << what;
      }
    }
}

TEST(MemoryTest, TheStateOfAnOptimizerIsAllOfItsSlots) {
  for (const auto& rank : after_two_steps("zero", 3, "lenet", {.spec = "adamw"})) {
    EXPECT_EQ(rank[2].formula, "2 phi / 3");
    EXPECT_NEAR(rank[2].formula_bytes, 2.0 * 61'706 * sizeof(double) / 3, 1e-6);
    EXPECT_NEAR(static_cast<double>(rank[2].bytes), rank[2].formula_bytes, 4 * sizeof(double));
  }
}

/// A part of a pipeline counts its own parameters.
TEST(MemoryTest, PartsOfAModelAreCountedByThemselves) {
  double sum = 0;
  for (const auto& rank : after_two_steps("mp(cut=fc1)", 2, "lenet")) {
    EXPECT_EQ(static_cast<double>(rank[0].bytes), rank[0].formula_bytes);
    sum += rank[0].formula_bytes;
  }
  EXPECT_EQ(sum, 61'706 * sizeof(double));
}

/// Each copy keeps a slice of what ZeRO's stages name.
TEST(MemoryTest, CopiesOfAPartKeepSlicesOfItsState) {
  for (const int zero : {1, 2}) {
    double sum = 0;
    for (const auto& rank :
         after_two_steps(concat("pipeline(cut=fc1,data=2,micro-batches=2,zero=", zero, ")"), 4, "lenet")) {
      EXPECT_EQ(rank[0].formula, "phi");
      EXPECT_EQ(rank[1].formula, zero == 2 ? "phi / 2" : "phi");
      EXPECT_EQ(rank[2].formula, "phi / 2");
      for (const auto& kind : rank)
        EXPECT_NEAR(static_cast<double>(kind.bytes), kind.formula_bytes, 2 * sizeof(double)) << kind.kind;
      sum += rank[2].formula_bytes;
    }
    EXPECT_EQ(sum, 61'706 * sizeof(double));
  }
}

/// The buckets hold fc6 and fc5; fc4 and fc3; fc2 and fc1. When the last one starts, the first one's gradients are
/// gone.
TEST(MemoryTest, WholeGradientsOfTwoBucketsAreAliveAtMost) {
  constexpr int64_t kWidth = 1300, kLayer = kWidth * (kWidth + 1);
  constexpr int64_t kSecond = 2 * kLayer * 8, kThird = (kLayer + kWidth * 785) * 8;
  for (const auto& rank : after_two_steps("zero(stage=2)", 2, "mlp(hidden=1300:1300:1300:1300:1300)")) {
    const auto& gradients = rank[1];
    // Both buckets that are on their way, and the gradients that are just being copied into the last one.
    EXPECT_NEAR(static_cast<double>(gradients.peak_bytes), gradients.formula_bytes + kSecond + 2 * kThird, 64);
  }
}

TEST(MemoryTest, TheReportNamesTheFullestRankAndTheSmallestShareOfTheFormula) {
  const MemoryOfRanks ranks{{{"parameters", 1000, 1000, 1000, "phi"}, {"gradients", 500, 2500, 490, "phi / 2"}},
                            {{"parameters", 1250, 1250, 1000, "phi"}, {"gradients", 500, 2000, 490, "phi / 2"}}};
  EXPECT_EQ(memory_text(ranks),
            "memory of the fullest rank: parameters 1.2 KB (phi: 1.0 KB, 80.0 % of what was measured), gradients 500 "
            "bytes, in a "
            "step up to 2.5 KB (phi / 2: 490 bytes, 98.0 % of what was measured)\n");
  const auto json = memory_json(ranks);
  EXPECT_EQ(json["parameters"]["bytes"], nlohmann::ordered_json({1000, 1250}));
  EXPECT_EQ(json["parameters"]["formula_share"], 0.8);
  EXPECT_EQ(json["gradients"]["peak_bytes"], nlohmann::ordered_json({2500, 2000}));
  EXPECT_EQ(json["gradients"]["formula"], "phi / 2");
  EXPECT_EQ(memory_text({ranks[0]}), "");
  EXPECT_EQ(memory_text({{}, {}}), "");
}

TEST(MemoryTest, NumbersOfAllRanksAreGathered) {
  run_ranks(3, [](Comm& comm) {
    const auto all =
        gather_memory({{"parameters", comm.rank(), 10 + comm.rank(), 0.5 * comm.rank(), "phi"}}, comm, torch::kCPU);
    ASSERT_EQ(all.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(all[rank][0].bytes, rank);
      EXPECT_EQ(all[rank][0].peak_bytes, 10 + rank);
      EXPECT_EQ(all[rank][0].formula_bytes, 0.5 * rank);
    }
  });
}

}  // namespace
}  // namespace penstock
