// Clipping in every mode: by the norm of all ranks and parts, and with --exact to the bit.
#include <gtest/gtest.h>

#include <set>

#include "core/text.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/verify/matrix.h"

namespace penstock {
namespace {

struct Clipped {
  StateDict state;
  std::vector<double> norms;  // by step, as the last rank has them
};

Clipped train_clipped(const std::string& mode, int ranks, const std::string& clip, torch::ScalarType dtype,
                      int micro_shards) {
  Clipped result;
  auto samples = random_samples(36, kGrey, 4);
  samples.images = samples.images.to(dtype);
  const auto body = [&](Comm& comm) {
    const auto make_one = [&] {
      auto model = make("lenet", kGrey);
      model->to(dtype);
      return model;
    };
    StrategyHarness one(mode, make_one, comm, kSgd, dtype, torch::kCPU, {16, 1, 28, 28}, micro_shards,
                        {.clip = parse_clip(clip)});
    comm.barrier();
    std::vector<double> norms;
    for (int64_t i = 0; i < 3; ++i) {
      one.strategy->step(one.part(samples, 16, i));
      norms.push_back(one.strategy->gradient_norm().item<double>());
    }
    const auto state = one.strategy->state();
    if (comm.rank() == 0) result.state = state;
    if (comm.rank() == comm.world_size() - 1) result.norms = norms;
  };
  at::set_num_threads(1);
  run_ranks(ranks, body, /*step_seconds=*/60, Network::kThreads);
  return result;
}

void expect_every_mode_clips_alike(const std::string& clip, Equivalence equivalence, torch::ScalarType dtype) {
  const bool is_exact = equivalence == Equivalence::kBitwise;
  const int micro_shards = is_exact ? kVerifiedShards : 0;
  const auto expected = train_clipped("single", 1, clip, dtype, micro_shards);
  std::set<std::string> names;
  const VerifyOptions options{.archs = {"lenet"}, .hostings = {Hosting::kThreads}, .batch_size = 16, .clip = clip};
  for (const auto& pair : matrix_of(options).pairs) {
    if (pair.equivalence != equivalence) continue;
    const auto found = train_clipped(pair.mode, pair.ranks, clip, dtype, micro_shards);
    const std::string what = concat(clip, ", ", pair.mode, ", ", pair.ranks, " ranks");
    EXPECT_LE(relative_difference(expected.state, found.state), is_exact ? 0 : 1e-12) << what;
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(found.norms[i], expected.norms[i], is_exact ? 0 : 1e-12 * expected.norms[i]) << what;
    names.insert(parse_spec("mode", pair.mode).name());
  }
  EXPECT_GE(names.size(), clip.starts_with("agc") ? 5U : 6U) << clip;
}

TEST(ClipModesTest, EveryModeClipsByTheNormOfTheWholeModel) {
  for (const char* clip : {"norm=0.1", "value=0.01", "agc=0.01"})
    expect_every_mode_clips_alike(clip, Equivalence::kFp64, torch::kFloat64);
}

TEST(ClipModesTest, WithExactTheBitsAreTheSameInEveryMode) {
  for (const char* clip : {"norm=0.1", "agc=0.01"})
    expect_every_mode_clips_alike(clip, Equivalence::kBitwise, torch::kFloat32);
}

/// A clipping that changes nothing would be alike in every mode.
TEST(ClipModesTest, ClippingChangesTheTraining) {
  const auto free = train_clipped("single", 1, "norm=1e9", torch::kFloat64, 0);
  for (const double norm : free.norms) EXPECT_GT(norm, 0.2);
  for (const char* clip : {"norm=0.1", "value=0.01", "agc=0.01"})
    EXPECT_GT(relative_difference(free.state, train_clipped("single", 1, clip, torch::kFloat64, 0).state), 1e-3)
        << clip;
}

}  // namespace
}  // namespace penstock
