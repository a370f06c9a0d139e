// Verification: what counts as a difference, what is run of which mode, and that failures are told.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/temporary.h"
#include "core/text.h"
#include "tests/support/testing.h"
#include "train/nn/drop.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/parallel/strategy/buckets.h"
#include "train/tensor/tensor_file.h"
#include "train/verify/difference.h"
#include "train/verify/matrix.h"
#include "train/verify/samples.h"
#include "train/verify/training.h"

namespace penstock {
namespace {

using testing::Contains, testing::Each, testing::ElementsAre, testing::Field, testing::HasSubstr, testing::IsEmpty,
    testing::Not, testing::SizeIs;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(DifferenceTest, IsRelativeToTheLargestElementOfTheTensorThatDiffersMost) {
  const StateDict expected{{"a", torch::tensor({1.0, -10.0})}, {"b", torch::tensor({0.5})}};
  StateDict state{{"a", torch::tensor({2.0, -10.0})}, {"b", torch::tensor({0.49})}};
  EXPECT_EQ(largest_difference(expected, expected).relative, 0);
  const auto difference = largest_difference(expected, state);
  EXPECT_DOUBLE_EQ(difference.relative, 0.1);
  EXPECT_EQ(difference.tensor, "a");
}

TEST(DifferenceTest, WhatTheOptimizerKeepsCountsRelativeToItsParameter) {
  const StateDict expected{{"model.fc.w", torch::tensor({4.0})}, {"optimizer.momentum.fc.w", torch::tensor({1e-9})}};
  const StateDict state{{"model.fc.w", torch::tensor({4.0})}, {"optimizer.momentum.fc.w", torch::tensor({2e-9})}};
  EXPECT_NEAR(largest_difference(expected, state).relative, 1e-9 / 4, 1e-13);
}

TEST(DifferenceTest, NumbersThatAreNotFiniteAndNamesThatDifferAreNeverEqual) {
  const StateDict expected{{"a", torch::tensor({1.0, 2.0})}};
  const double nan = std::nan("");
  for (const StateDict& state :
       {StateDict{{"a", torch::tensor({1.0, nan})}}, StateDict{{"b", torch::tensor({1.0, 2.0})}}, StateDict{},
        StateDict{{"a", torch::tensor({1.0, 2.0})}, {"b", torch::tensor({1.0})}}})
    EXPECT_EQ(largest_difference(expected, state).relative, kInfinity);
  const StateDict not_a_number{{"a", torch::tensor({nan})}};
  EXPECT_EQ(largest_difference(not_a_number, not_a_number).relative, kInfinity);
}

TEST(DifferenceTest, AGradientIsTheMomentumOrElseTheChangeOfTheParameters) {
  const StateDict expected{{"model.w", torch::tensor({7.0, 6.0})}, {"optimizer.momentum.w", torch::tensor({3.0, 4.0})}};
  const StateDict with_momentum{{"model.w", torch::tensor({0.0, 0.0})},
                                {"optimizer.momentum.w", torch::tensor({3.0, 4.5})}};
  EXPECT_DOUBLE_EQ(gradient_difference(expected, with_momentum), 0.1);
  EXPECT_DOUBLE_EQ(gradient_difference(expected, {{"model.w", torch::tensor({7.0, 7.0})}}), 0.2);
  EXPECT_EQ(gradient_difference(expected, {}), kInfinity);
}

TEST(SamplesTest, DigitsHaveMeanZeroAndTheLastBatchIsNotFull) {
  const auto samples = digit_samples(10);
  EXPECT_NEAR(samples.images.mean().item<double>(), 0, 1e-12);
  EXPECT_EQ(samples.images.sizes(), (std::vector<int64_t>{10, 1, 28, 28}));
  for (int rank = 0; rank < 2; ++rank) {  // rows 8 and 9
    const auto even = part_of(samples, 8, 1, rank, 2), in_place = part_of(samples, 8, 1, rank, 2, ShortBatch::kInPlace);
    EXPECT_EQ(even.count, 1);
    EXPECT_EQ(in_place.count, rank == 0 ? 2 : 0);
    EXPECT_EQ(even.global_count, 2);
  }
}

std::vector<Comparison> pairs_of(const std::vector<Comparison>& all, const std::string& mode) {
  std::vector<Comparison> pairs;
  for (const auto& pair : all)
    if (pair.mode == mode) pairs.push_back(pair);
  return pairs;
}

TEST(MatrixTest, EveryRegisteredModeAndItsExamplesAreRun) {
  const auto matrix = matrix_of({});
  for (const auto& [name, entry] : StrategyRegistry::entries()) {
    EXPECT_THAT(pairs_of(matrix.pairs, name), Not(IsEmpty())) << name;
    for (const auto& example : entry.traits.examples) {
      EXPECT_EQ(parse_spec("mode", example).name(), name);
      EXPECT_THAT(pairs_of(matrix.pairs, example), Not(IsEmpty())) << example;
    }
  }
}

TEST(MatrixTest, AModeThatTakesNoneOfTheRanksRunsWithItsOwn) {
  const auto matrix = matrix_of({.modes = {"dp"}, .archs = {"lenet"}});
  ASSERT_THAT(matrix.pairs, SizeIs(3));  // bitwise, one-step and fp64; one rank is not hosted in two ways
  EXPECT_THAT(matrix.pairs, Each(Field(&Comparison::ranks, 1)));
  ASSERT_THAT(matrix.left_out, SizeIs(1));
  EXPECT_THAT(matrix.left_out[0].ranks, ElementsAre(2, 4));
  EXPECT_THAT(matrix.left_out[0].reason, HasSubstr("launched with 2 ranks"));
}

TEST(MatrixTest, BatchNormIsForModesThatSeeWholeBatches) {
  const VerifyOptions options{.modes = {"ddp", "ddp(sync-bn=true)", "pipeline", "pipeline(micro-batches=1)", "mp"},
                              .archs = {"lenet", "lenet(batch-norm=true)"},
                              .ranks = {2},
                              .hostings = {Hosting::kThreads}};
  const auto matrix = matrix_of(options);
  for (const auto& mode : options.modes)
    EXPECT_EQ(std::count_if(
                  matrix.pairs.begin(), matrix.pairs.end(),
                  [&](const Comparison& pair) { return pair.mode == mode && pair.equivalence == Equivalence::kFp64; }),
              mode == "ddp" || mode == "pipeline" ? 1 : 2)
        << mode;
}

TEST(MatrixTest, CompressionHasTheBoundOfTheMode) {
  const auto matrix = matrix_of({.modes = {"ddp(compress=fp16)"}, .archs = {"lenet"}, .ranks = {4}});
  ASSERT_THAT(matrix.pairs, SizeIs(2));
  EXPECT_EQ(matrix.pairs[1].equivalence, Equivalence::kEvaluation);
  EXPECT_EQ(matrix.pairs[0].equivalence, Equivalence::kCompressed);
  EXPECT_EQ(matrix.pairs[0].bound, 4 / 2048.0);
}

TEST(MatrixTest, RanksThatTakeStepsAloneAreLikeSingleAsFarAsTheirModeSays) {
  const auto matrix_with = [](const std::string& mode, const std::string& clip) {
    return matrix_of({.modes = {mode}, .archs = {"lenet"}, .ranks = {4}, .clip = clip});
  };
  const auto classes = [&](const std::string& mode) {
    std::vector<std::string> names;
    for (const auto& pair : matrix_with(mode, "").pairs) names.push_back(name_of(pair.equivalence));
    return names;
  };
  EXPECT_THAT(classes("ddp(local-steps=1)"), ElementsAre("one-step", "fp64"));
  EXPECT_THAT(matrix_of({.modes = {"ddp(local-steps=1)"}, .archs = {"lenet"}, .ranks = {4}, .optimizer = "adam"}).pairs,
              Not(Contains(Field(&Comparison::equivalence, Equivalence::kFp64))));  // means of what is not linear
  EXPECT_THAT(message_of(ErrorKind::kConfig,
                         [] { matrix_of({.modes = {"ddp(local-steps=1)"}, .ranks = {2}, .average = "ema"}); }),
              HasSubstr("--mode ddp(local-steps=1) keeps no average; expected no --average"));
  for (const auto* mode :
       {"ddp(local-steps=4)", "ddp(local-steps=1,outer-rate=0.5)", "ddp(local-steps=1,outer=nesterov)"})
    EXPECT_THAT(classes(mode), ElementsAre("one-step", "evaluation")) << mode;
  EXPECT_THAT(matrix_with("ddp(local-steps=4)", "").left_out,
              Contains(Field(&Skipped::reason, HasSubstr("ranks take steps alone"))));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { matrix_with("ddp(local-steps=1)", "norm=1"); }),
              HasSubstr("--clip-grad is norm=1; expected none"));
}

TEST(MatrixTest, WhatCannotRunIsRefusedWhereItWasAskedForAndOtherwiseSaid) {
  EXPECT_THAT(message_of(ErrorKind::kConfig, [] { matrix_of({.modes = {"zero(stage=9)"}}); }),
              HasSubstr("stage is 9; expected 1, 2 or 3"));
  const auto matrix = matrix_of({.modes = {"mp"}, .archs = {"mlp"}, .ranks = {2, 4}});
  EXPECT_THAT(matrix.pairs, Each(Field(&Comparison::ranks, 2)));
  EXPECT_THAT(matrix.left_out, Contains(Field(&Skipped::ranks, ElementsAre(4))));
}

/// What some pair must have.
struct Covered {
  const char* what;
  std::function<bool(const Comparison&)> is_there;
};

TEST(MatrixTest, TheDefaultsHaveWhatARunHasByDefaultAndWhatChangesAnUpdate) {
  const auto pairs = pairs_of(matrix_of({}).pairs, "ddp");
  const auto is_state = [](const Comparison& pair) { return pair.equivalence == Equivalence::kFp64; };
  const std::vector<Covered> all{
      {"shared memory", [&](const auto& pair) { return is_state(pair) && pair.hosting == Hosting::kProcesses; }},
      {"sockets", [](const auto& pair) { return pair.hosting == Hosting::kSockets; }},
      {"threads", [](const auto& pair) { return pair.hosting == Hosting::kThreads; }},
      {"adam", [&](const auto& pair) { return is_state(pair) && pair.subject.optimizer == "adamw"; }},
      {"an average", [&](const auto& pair) { return is_state(pair) && !pair.subject.average.empty(); }},
      {"clipping", [&](const auto& pair) { return is_state(pair) && !pair.subject.clip.empty(); }},
      {"rates by layer", [&](const auto& pair) { return is_state(pair) && !pair.subject.layer_lr.empty(); }},
      {"decays by parameter", [&](const auto& pair) { return is_state(pair) && pair.subject.bias_decay == 0; }},
      {"dropout", [&](const auto& pair) { return is_state(pair) && has_drops(*make_model_of(pair.subject.arch, {})); }},
      {"several buckets",
       [&](const auto& pair) {
         const auto model = make_model_of(pair.subject.arch, {});
         return is_state(pair) && detail::assign_buckets(detail::bytes_of(model->parameters())).size() > 1;
       }},
      {"an evaluation with BatchNorm", [](const auto& pair) {
         return pair.equivalence == Equivalence::kEvaluation && has_batch_norm(*make_model_of(pair.subject.arch, {}));
       }}};
  for (const auto& [what, is_there] : all) EXPECT_TRUE(std::any_of(pairs.begin(), pairs.end(), is_there)) << what;
  for (const auto& loss : LossRegistry::names())
    EXPECT_EQ(std::any_of(pairs.begin(), pairs.end(),
                          [&](const auto& pair) {
                            return pair.equivalence == Equivalence::kBitwise && pair.subject.loss == loss;
                          }),
              make_loss(loss)->target().is_class())
        << loss;
}

TEST(MatrixTest, FlagsThatAreGivenAreThoseOfEveryPair) {
  const VerifyOptions options{
      .modes = {"zero"}, .ranks = {2}, .optimizer = "muon", .average = "ema", .layer_lr = "fc3=2", .bias_decay = 0};
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { matrix_of(options); }), HasSubstr("muon"));
  auto with_adam = options;
  with_adam.optimizer = "adam";
  const auto matrix = matrix_of(with_adam);
  ASSERT_THAT(matrix.pairs, Not(IsEmpty()));
  for (const auto& pair : matrix.pairs)
    EXPECT_EQ(flags_of(pair.subject), "--optimizer adam --average ema --layer-lr fc3=2 --bias-decay 0");
}

TEST(VerifyLaunchTest, AFailureTellsWhoFailedAndInWhat) {
  const ScratchFolder folder("penstock-launch");
  Launch launch{.mode = "single", .batch_size = 8, .end_step = 2, .step_count = 2};
  const Samples samples = digit_samples(8);
  launch.from = folder.path() / "nothing";
  const auto end = run_launch(launch, samples, folder.path() / "state");
  EXPECT_THAT(end.failure, HasSubstr("nothing"));
  EXPECT_EQ(end.rank, 0);
  EXPECT_EQ(text_of(end.at), "the state of a checkpoint");
}

TEST(VerifyLaunchTest, AnEvaluationAndTheLossesAreThoseOfAllRanks) {
  const ScratchFolder folder("penstock-launch");
  const Samples samples = digit_samples(11);
  const auto said_of = [&](const std::string& mode, int ranks) {
    const auto file = folder.path() / "state";
    const auto end =
        run_launch({.mode = mode, .ranks = ranks, .batch_size = 8, .end_step = 2, .step_count = 2, .evaluates = true},
                   samples, file);
    EXPECT_EQ(end.failure, "") << mode;
    auto state = read_tensors(file).tensors;
    std::erase_if(state, [](const auto& entry) { return !entry.first.starts_with(kSaid); });
    return state;
  };
  const auto expected = said_of("single", 1);
  EXPECT_EQ(expected.at("said.evaluation").sizes(), (std::vector<int64_t>{11, 10}));
  EXPECT_EQ(expected.at("said.steps").sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_TRUE(expected.at("said.evaluation").ne(0).any(1).all().item<bool>());
  EXPECT_LT(largest_difference(expected, said_of("pipeline(data=2,micro-batches=2)", 4)).relative, 1e-12);
}

}  // namespace
}  // namespace penstock
