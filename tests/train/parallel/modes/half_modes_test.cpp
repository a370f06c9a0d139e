// Modes in half precision: they train the model that `single` trains in bf16, up to the rounding of bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/nn/layers.h"

namespace penstock {
namespace {

constexpr int64_t kHalfBatch = 12, kHalfSteps = 3;

/// The parameters after some steps; after none, those that all runs begin with.
StateDict trained_half(const std::string& mode, int ranks, const std::string& arch, const ModelShape& shape,
                       const Precision& precision, int64_t step_count = kHalfSteps) {
  auto samples = random_samples(kHalfBatch * kHalfSteps, shape, 4);
  samples.images = samples.images.to(torch::kFloat32);
  const auto make_half = [&] {
    auto model = make(arch, shape);
    compute_in(*model, precision);
    return model;
  };
  StateDict state;
  run_ranks(
      ranks,
      [&](Comm& comm) {
        at::set_num_threads(1);
        StrategyHarness one(mode, make_half, comm, kSgd, torch::kFloat32, torch::kCPU,
                            {kHalfBatch, shape.channels, shape.height, shape.width});
        comm.barrier();
        for (int64_t step = 0; step < step_count; ++step) one.strategy->step(one.part(samples, kHalfBatch, step));
        const auto all = one.strategy->state();
        if (comm.rank() != 0) return;
        for (const auto& [name, tensor] : all)
          if (name.starts_with("model.") && tensor.is_floating_point() && name.find("running") == std::string::npos)
            state.emplace(name, tensor.clone());
      },
      /*step_seconds=*/60);
  return state;
}

/// The norm of the difference of all parameters.
double distance(const StateDict& one, const StateDict& other) {
  double sum = 0;
  for (const auto& [name, tensor] : one) sum += (tensor - other.at(name)).square().sum().item<double>();
  return std::sqrt(sum);
}

struct HalfCase {
  std::string mode;
  int ranks;
  std::string arch;
};

/// How far a mode ends from `single`, divided by how far `single` has come. bf16 has 8 bits: a gradient that is rounded
/// to it as the sum over some rows is off by up to 2^-9 where the other is not, and a rectified linear unit near 0 is
/// on in one run and off in the other. Scales of gradients are powers of two, which bf16 holds: that of the modes here
/// is to be taken off everywhere, as f16 needs it, for which a processor has no kernels. Up to 0.023 were seen,
/// and 0.060 for a pipeline on a Zen 3.
TEST(HalfModesTest, EveryModeTrainsTheModelOfSingleUpToRounding) {
  const Precision half{.dtype = torch::kBFloat16}, scaled{.dtype = torch::kBFloat16, .gradient_scale = 1024};
  for (const std::string arch : {"lenet", "lenet(batch-norm=true)", "bag-of-tricks-resnet(width=0.125)"}) {
    const ModelShape shape = arch.starts_with("lenet") ? kGrey : ModelShape{.channels = 3, .height = 16, .width = 16};
    const auto start = trained_half("single", 1, arch, shape, half, 0);
    const auto expected = trained_half("single", 1, arch, shape, half);
    const double way = distance(expected, start);
    ASSERT_GT(distance(expected, trained_half("single", 1, arch, shape, {})) / way, 1e-3) << arch;  // bf16 was on
    std::vector<HalfCase> cases{{"single", 1, arch}, {"mp", 2, arch}};
    if (arch == "lenet")
      for (const auto& [mode, ranks] : {std::pair{"dp(devices=cpu:2)", 1},
                                        {"ddp", 2},
                                        {"zero(stage=3)", 2},
                                        {"pipeline(schedule=zero-bubble,micro-batches=3)", 2},
                                        {"pipeline(schedule=interleaved,micro-batches=2)", 2},
                                        {"pipeline(data=2,zero=2,micro-batches=2)", 4}})
        cases.push_back({mode, ranks, arch});
    else
      for (const auto& [mode, ranks] : {std::pair{"ddp(sync-bn=true)", 2}, {"zero(stage=3,sync-bn=true)", 3}})
        cases.push_back({mode, ranks, arch});
    for (const auto& one : cases) {
      const double off = distance(expected, trained_half(one.mode, one.ranks, arch, shape, scaled)) / way;
      EXPECT_LT(off, 0.1) << one.mode << ", " << one.ranks << " ranks, " << arch;
    }
  }
}

const std::vector<std::pair<std::string, int>> kSkippingModes{{"single", 1},
                                                              {"single(accumulate=2)", 1},
                                                              {"ddp", 2},
                                                              {"ddp(compress=fp16)", 2},
                                                              {"zero", 2},
                                                              {"zero(stage=2)", 2},
                                                              {"zero(stage=3)", 2},
                                                              {"dp(devices=cpu:2)", 1},
                                                              {"mp", 2},
                                                              {"pipeline(micro-batches=2)", 2},
                                                              {"pipeline(schedule=zero-bubble,micro-batches=3)", 2},
                                                              {"pipeline(data=2,zero=1,micro-batches=2)", 4}};

bool is_same_state(const StateDict& one, const StateDict& other) {
  return one.size() == other.size() && std::all_of(one.begin(), one.end(), [&](const auto& entry) {
           return entry.second.equal(other.at(entry.first));
         });
}

/// Where a rank has a slice or a part of the model, one alone sees what is not finite.
TEST(HalfModesTest, AnInfinityInOneGradientOfOneRankSkipsTheStepOfAll) {
  const auto samples = random_samples(kHalfBatch * kHalfSteps, kGrey, 4);
  for (const auto& [mode, ranks] : kSkippingModes)
    run_ranks(ranks, [&, mode = mode, ranks = ranks](Comm& comm) {
      at::set_num_threads(1);
      StrategyHarness one(mode, make_lenet, comm, {.learning_rate = 0.01, .spec = "adam"}, torch::kFloat64, torch::kCPU,
                          {kHalfBatch, 1, 28, 28}, /*micro_shards=*/0, {.skips_overflows = true});
      bool overflows = false;
      auto bias = one.model->named_parameters()["fc3.bias"];
      if (comm.rank() == ranks - 1 && bias.requires_grad())
        bias.register_hook([&](const torch::Tensor& gradient) { return overflows ? gradient * INFINITY : gradient; });
      const auto step = [&](int64_t index, bool has_overflow) {
        overflows = has_overflow;
        return one.strategy->step(one.part(samples, kHalfBatch, index)).is_skipped;
      };
      EXPECT_FALSE(step(0, false)) << mode;
      const auto before = one.strategy->state();
      EXPECT_TRUE(step(1, true)) << mode;
      const auto after = one.strategy->state();
      EXPECT_TRUE(is_same_state(before, after)) << mode;
      EXPECT_FALSE(step(2, false)) << mode;
      const auto later = one.strategy->state();
      if (comm.rank() == 0) {
        EXPECT_FALSE(is_same_state(after, later)) << mode;
      }
    });
}

/// LibTorch's processor kernels take f16 here, though a run may not ask for it.
TEST(HalfModesTest, AScaleOfF16ThatChangesReachesAllLayersAndOverflowsAreSkipped) {
  auto samples = random_samples(kHalfBatch * kHalfSteps, kGrey, 4);
  samples.images = samples.images.to(torch::kFloat32);
  for (const auto& [mode, ranks] :
       {std::pair{"single", 1}, {"dp(devices=cpu:2)", 1}, {"ddp", 2}, {"zero(stage=3)", 2}, {"mp", 2}})
    run_ranks(ranks, [&, mode = mode](Comm& comm) {
      at::set_num_threads(1);
      const Precision half{.name = "f16", .dtype = torch::kHalf};
      const auto make_half = [&half] {
        auto model = make("lenet");
        compute_in(*model, half);
        return model;
      };
      StrategyHarness one(mode, make_half, comm, kSgd, torch::kFloat32, torch::kCPU, {kHalfBatch, 1, 28, 28},
                          /*micro_shards=*/0, {.skips_overflows = true});
      const auto step = [&](double scale) {
        Precision scaled = half;
        scaled.gradient_scale = scale;
        one.strategy->compute_in(scaled);
        return one.strategy->step(one.part(samples, kHalfBatch, 0)).is_skipped;
      };
      EXPECT_FALSE(step(1024)) << mode;
      const auto before = one.strategy->state();
      EXPECT_TRUE(step(0x1p24)) << mode;
      EXPECT_TRUE(is_same_state(before, one.strategy->state())) << mode;
      EXPECT_FALSE(step(1)) << mode;
    });
}

}  // namespace
}  // namespace penstock
