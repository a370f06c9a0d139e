// Predictions: against numbers that one can work out on paper, and against the simulation of schedules.
#include "train/parallel/plan/prediction.h"

#include <gmock/gmock.h>

#include <numeric>

#include "core/error.h"
#include "core/spec.h"
#include "train/nn/model.h"
#include "train/parallel/pipeline/timeline.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {
namespace {

constexpr double kForward = 1, kBackward = 2;  // seconds of a block for a micro-batch of one row

/// A machine on which nothing but blocks takes time, in proportion to rows.
MachineCosts ideal_machine(size_t blocks, double cores) {
  MachineCosts costs;
  costs.cores = cores;
  PassCosts pass;
  pass.rows = 1;
  pass.splits = true;
  pass.blocks.resize(blocks);
  for (auto& block : pass.blocks)
    block = {Work::of(kForward), Work::of(kBackward), Work::of(kBackward / 2), Work::of(kBackward / 2)};
  costs.passes = {pass};
  costs.activation_bytes = std::vector<double>(blocks, 100);
  costs.output_bytes = std::vector<double>(blocks, 10);
  costs.shares_memory = true;
  return costs;
}

/// Parameters of 4 bytes in each block.
std::vector<ParameterFacts> parameters_of(size_t blocks, int64_t bytes = 4) {
  std::vector<ParameterFacts> parameters;
  for (size_t block = 0; block < blocks; ++block) parameters.push_back({.block = block, .bytes = bytes});
  return parameters;
}

PlannedMode planned(const std::string& mode, int data, int pipe, int64_t batch_size) {
  return {.plan = plan_of(parse_spec("mode", mode), {.ranks = data * pipe}),
          .batch_size = batch_size,
          .workers = 0,
          .optimizer_slots = 1};
}

/// LeNet, of which only the number of blocks counts here.
const Model& lenet() {
  static const auto model = make_model_of("lenet", ModelShape{});
  return *model;
}
size_t block_count() { return lenet().blocks().size(); }
ModelFacts facts() { return facts_of(lenet()); }

Prediction predicted(const PlannedMode& mode, const MachineCosts& costs, int64_t parameter_bytes = 4) {
  const auto shape = shape_of_step(mode, facts(), &costs);
  if (!shape) throw bug_error("the mode has no prediction; expected one");
  return predict(mode, *shape, costs, parameters_of(block_count(), parameter_bytes));
}

constexpr int64_t kMiB = 1 << 20;  // as much as a unit takes, the first bucket and the last one

/// Each block has one trained matrix of 512 x 512 numbers.
std::vector<ParameterFacts> matrices_of(size_t blocks) {
  auto parameters = parameters_of(blocks, kMiB);
  for (auto& parameter : parameters) parameter.sizes = {512, 512};
  return parameters;
}

TEST(PredictionTest, SingleTakesTheSumOfItsBlocks) {
  const auto costs = ideal_machine(block_count(), 1);
  const double blocks = static_cast<double>(block_count());
  EXPECT_NEAR(predicted(planned("single", 1, 1, 8), costs).step_seconds, 8 * 3 * blocks, 1e-6);
  EXPECT_NEAR(predicted(planned("single(accumulate=4)", 1, 1, 8), costs).step_seconds, 8 * 3 * blocks, 1e-6);
}

TEST(PredictionTest, DdpDividesTheRowsOverCoresThatThereAre) {
  const double blocks = static_cast<double>(block_count());
  EXPECT_NEAR(predicted(planned("ddp", 4, 1, 8), ideal_machine(block_count(), 4)).step_seconds, 2 * 3 * blocks, 1e-6);
  EXPECT_NEAR(predicted(planned("ddp", 4, 1, 8), ideal_machine(block_count(), 2)).step_seconds, 4 * 3 * blocks, 1e-6);
}

TEST(PredictionTest, SumsHideBehindBackwardUpToTheLastBucket) {
  auto costs = ideal_machine(block_count(), 100);
  constexpr int64_t kBytes = 1 << 20;                             // as much as the first bucket takes, and the last one
  costs.collectives.front().sum.seconds_per_byte = 0.5 / kBytes;  // half a second for a bucket
  const auto prediction = predicted(planned("ddp", 2, 1, 2), costs, kBytes);
  const double compute = 3.0 * static_cast<double>(block_count());
  EXPECT_NEAR(prediction.step_seconds, compute + 0.5, 1e-6);
  EXPECT_NEAR(prediction.exposed_communication, 0.5 / (compute + 0.5), 1e-6);
}

TEST(PredictionTest, AUnitIsGatheredWhileTheOneBeforeComputes) {
  ASSERT_EQ(block_count(), 5U);
  auto costs = ideal_machine(5, 100);
  costs.collectives.front().ring_gather.seconds_per_byte = costs.collectives.front().scatter.seconds_per_byte =
      0.5 / kMiB;
  const auto plan = planned("zero(stage=3)", 2, 1, 2);
  // The first gather and the last scatter hide behind nothing.
  const auto prediction = predicted(plan, costs, kMiB);
  EXPECT_NEAR(prediction.step_seconds, 5 * 3 + 0.5 + 0.5, 1e-6);
  EXPECT_NEAR(prediction.exposed_communication, 1.0 / 16, 1e-6);
  // Gathers of 3 s set the pace: five before the last forward, and four until the last backward.
  costs.collectives.front().ring_gather.seconds_per_byte = 3.0 / kMiB;
  costs.collectives.front().scatter.seconds_per_byte = 0;
  EXPECT_NEAR(predicted(plan, costs, kMiB).step_seconds, 5 * 3 + kForward + 4 * 3 + kBackward, 1e-6);
  // What is packed for a scatter, and an update of half of the parameters.
  costs.collectives.front().ring_gather.seconds_per_byte = 0;
  costs.touch = Work::of(0.25 / kMiB);
  costs.update = Work::of(1.0 / kMiB);
  EXPECT_NEAR(predicted(plan, costs, kMiB).step_seconds, 5 * 3 + 5 * 0.25 + 5 * 0.5, 1e-6);
}

TEST(PredictionTest, TwoUnitsOfZeroStage3AreWholeAtATime) {
  auto costs = ideal_machine(5, 100);
  const double slices = (5 + 5 + 5) * kMiB / 2.0, units = 2 * 2 * kMiB, activations = 2 * 5 * 100;
  const auto bytes = predicted(planned("zero(stage=3)", 2, 1, 4), costs, kMiB).rank_bytes;
  EXPECT_THAT(bytes, testing::ElementsAre(slices + units + activations, slices + units + activations));
}

TEST(PredictionTest, GradientsOf16BitsTakeTheirSumsAndWhatRoundsThem) {
  auto costs = ideal_machine(block_count(), 100);
  costs.collectives.front().half_sum.seconds_per_byte =
      1.0 / kMiB;  // half a second for the last bucket, which hides behind nothing
  costs.compressions = {
      {.compression = {.name = "fp16"}, .start = Work::of(0.25 / kMiB), .turn = {}, .finish = Work::of(0.125 / kMiB)}};
  const auto plan = planned("ddp(compress=fp16)", 2, 1, 2);
  const auto blocks = static_cast<double>(block_count());
  EXPECT_NEAR(predicted(plan, costs, kMiB).step_seconds, blocks * (3 + 0.25 + 0.125) + 0.5, 1e-6);
  // Micro-batches are summed first.
  const auto twice = planned("ddp(compress=fp16,accumulate=2)", 2, 1, 4);
  EXPECT_NEAR(predicted(twice, costs, kMiB).step_seconds, blocks * (6 + 0.25 + 0.125) + 0.5, 1e-6);
  costs.shares_memory = false;
  costs.collectives.front().half_sum.seconds_per_byte = 0;
  const double plain = predicted(planned("ddp", 2, 1, 2), costs, kMiB).rank_bytes.front();
  EXPECT_NEAR(predicted(plan, costs, kMiB).rank_bytes.front() - plain, blocks * kMiB * 1.5, 1e-6);
}

TEST(PredictionTest, ThinMatricesAreSummedInTwoRoundsOutsideOfSharedMemory) {
  auto costs = ideal_machine(block_count(), 100);
  costs.collectives.front().scatter.seconds = 0.5;
  costs.compressions = {{.compression = {.name = "powersgd", .rank = 2},
                         .start = Work::of(0.25 / kMiB),
                         .turn = Work::of(0.5 / kMiB),
                         .finish = Work::of(0.125 / kMiB)}};
  const auto plan = planned("ddp(compress=powersgd)", 2, 1, 2);
  const auto shape = shape_of_step(plan, facts(), &costs);
  ASSERT_TRUE(shape);
  const auto parameters = matrices_of(block_count());
  const auto buckets = gradient_buckets(*shape, 0, parameters);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets.front().sent_bytes, 512 * 2 * 4);
  EXPECT_EQ(buckets.front().second_bytes, 512 * 2 * 4);
  // The last bucket of the first round, and all of the second one.
  const auto blocks = static_cast<double>(block_count());
  EXPECT_NEAR(predict(plan, *shape, costs, parameters).step_seconds, blocks * (3 + 0.25 + 0.5 + 0.125) + 0.5 + 3 * 0.5,
              1e-6);
  // Gradients of one dimension are sent as they are.
  EXPECT_EQ(gradient_buckets(*shape, 0, parameters_of(block_count(), kMiB)).front().sent_bytes, kMiB);
  EXPECT_THROW(predicted(planned("ddp(compress=powersgd,rank=3)", 2, 1, 2), costs), Error);  // was not measured
}

TEST(PredictionTest, StatisticsOfAllRanksHideBehindNothing) {
  auto costs = ideal_machine(5, 100);
  costs.collectives.front().ring_gather.seconds = 0.25;
  const auto plan = planned("ddp", 2, 1, 2);
  auto shape = shape_of_step(plan, facts(), &costs);
  ASSERT_TRUE(shape);
  shape->synced_layers = {0, 2, 0, 1, 0};
  const auto parameters = parameters_of(5);
  EXPECT_THROW(predict(plan, *shape, costs, parameters), Error);  // no pass was measured with such layers
  costs.passes.push_back(costs.passes.front());
  costs.passes.back().syncs = true;
  costs.passes.back().blocks[1].forward = Work::of(2 * kForward);
  const auto prediction = predict(plan, *shape, costs, parameters);
  EXPECT_NEAR(prediction.step_seconds, 5 * 3 + kForward + 2 * 3 * 0.25, 1e-6);
  EXPECT_NEAR(prediction.exposed_communication, 1.5 / 17.5, 1e-6);
  costs.passes.back().gather_skew = 0.5;  // at each of six gathers
  EXPECT_NEAR(predict(plan, *shape, costs, parameters).step_seconds, 17.5 + 6 * 0.5, 1e-6);
}

TEST(PredictionTest, LayersOfBatchNormAreCountedBlockByBlock) {
  const auto model = make_model_of("resnet18", ModelShape{});
  const auto costs = ideal_machine(model->blocks().size(), 2);
  const auto layers_of = [&](const char* mode, Emulation emulation = {}) {
    auto plan = planned(mode, 2, 1, 4);
    plan.emulation = emulation;
    return shape_of_step(plan, facts_of(*model), &costs)->synced_layers;
  };
  EXPECT_THAT(layers_of("ddp"), testing::IsEmpty());
  const auto layers = layers_of("zero(stage=3,sync-bn=true)");
  ASSERT_EQ(layers.size(), model->blocks().size());
  EXPECT_EQ(layers.front(), 1);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 20);
  EXPECT_THAT(layers_of("ddp(sync-bn=true)", {.step_ns = 1'000'000}), testing::IsEmpty());  // a wait has no layers
}

TEST(PredictionTest, RanksThatTakeStepsAloneWaitForASumNowAndThen) {
  auto costs = ideal_machine(block_count(), 100);
  costs.collectives.front().sum.seconds_per_byte = 0.5 / kMiB;
  costs.touch = Work::of(1.0 / kMiB);
  const double blocks = static_cast<double>(block_count()), compute = 3 * blocks;
  // Gradients become 0, and those of the own rows; before a meeting parameters take their place, and then the mean.
  const double step = compute + 2 * blocks, meeting = 0.5 * blocks + 2 * blocks;
  EXPECT_NEAR(predicted(planned("ddp(local-steps=1)", 2, 1, 2), costs, kMiB).step_seconds, step + meeting, 1e-6);
  EXPECT_NEAR(predicted(planned("ddp(local-steps=2)", 2, 1, 2), costs, kMiB).step_seconds, step + meeting / 2, 1e-6);
  const auto outer = predicted(planned("ddp(local-steps=5,outer=nesterov)", 2, 1, 2), costs, kMiB);
  EXPECT_NEAR(outer.step_seconds, step + (meeting + 2 * blocks) / 5, 1e-6);
  const auto mean = predicted(planned("ddp(local-steps=5)", 2, 1, 2), costs, kMiB);
  EXPECT_NEAR(outer.rank_bytes.front() - mean.rank_bytes.front(), 2 * blocks * kMiB, 1e-6);
}

TEST(PredictionTest, AVoteIsWaitedForOneStepLater) {
  auto costs = ideal_machine(block_count(), 100);
  const double compute = 3.0 * static_cast<double>(block_count());
  costs.collectives.front().vote.seconds = compute / 2;
  EXPECT_NEAR(predicted(planned("ddp", 2, 1, 2), costs).step_seconds, compute, 1e-6);
  costs.collectives.front().vote.seconds = 2 * compute;
  EXPECT_NEAR(predicted(planned("ddp", 2, 1, 2), costs).step_seconds, 2 * compute, 1e-6);
}

TEST(PredictionTest, RanksComeToTheirFirstSumOneAfterTheOther) {
  auto costs = ideal_machine(block_count(), 100);
  costs.passes.front().skew = 4;
  const double compute = 3.0 * static_cast<double>(block_count());
  EXPECT_NEAR(predicted(planned("ddp", 2, 1, 2), costs).step_seconds, compute + 4, 1e-6);
  EXPECT_NEAR(predicted(planned("single", 1, 1, 1), costs).step_seconds, compute, 1e-6);
}

TEST(PredictionTest, StagesThatWaitForEachOtherFindColdCaches) {
  auto costs = ideal_machine(block_count(), 100);
  for (auto& block : costs.passes.front().blocks) block.forward.in_turn = 3 * kForward;
  const double blocks = static_cast<double>(block_count());
  EXPECT_NEAR(predicted(planned("single", 1, 1, 1), costs).step_seconds, blocks * (kForward + kBackward), 1e-6);
  // The first stage goes on to the next step without a wait.
  const auto mode = planned("mp(cut=fc1)", 1, 2, 1);
  EXPECT_NEAR(predicted(mode, costs).step_seconds, blocks * (kForward + kBackward) + 3 * 2 * kForward, 1e-6);
}

TEST(PredictionTest, JoinedGradientsAreMadeInTheLastMicroBatchOfEachStage) {
  ASSERT_EQ(block_count(), 5U);
  auto costs = ideal_machine(5, 100);
  const auto seconds = [&](const char* mode, int ranks) {
    return predicted(planned(mode, 1, ranks, 8), costs).step_seconds;
  };
  constexpr double kJoined = 0.25;
  const char* piped = "pipeline(schedule=gpipe,micro-batches=8)";
  const double alone = seconds("single(accumulate=8)", 1), stages = seconds(piped, 5);
  for (auto& block : costs.passes.front().blocks) block.joined = Work::of(kJoined);
  EXPECT_NEAR(seconds("single(accumulate=8)", 1), alone + 5 * 8 * kJoined, 1e-6);
  EXPECT_NEAR(seconds(piped, 5), stages + 5 * 8 * kJoined, 1e-6);  // each stage waits for the last gradient of the next
}

TEST(PredictionTest, PipelinesOfEqualStagesHaveTheBubbleOfTheirSchedule) {
  // Five blocks over five ranks: one each.
  ASSERT_EQ(block_count(), 5U);
  const auto costs = ideal_machine(5, 100);
  for (const char* mode : {"pipeline(schedule=gpipe,micro-batches=8)", "pipeline(micro-batches=8)",
                           "pipeline(schedule=zero-bubble,micro-batches=8)", "mp"}) {
    const auto plan = planned(mode, 1, 5, 8);
    const auto shape = shape_of_step(plan, facts(), &costs);
    ASSERT_TRUE(shape) << mode;
    const auto timeline = simulate(shape->placed.ranks, shape->placed.placement);
    const auto prediction = predicted(plan, costs);
    const double unit = static_cast<double>(shape->rows) * kForward;
    if (std::string(mode).find("zero-bubble") == std::string::npos) {
      EXPECT_NEAR(prediction.step_seconds, static_cast<double>(timeline.end) * unit, 1e-6) << mode;
      EXPECT_NEAR(prediction.bubble, timeline.bubble(), 1e-6) << mode;
    } else {  // the first stage computes both halves of a backward in the second one, and waits less
      EXPECT_LE(prediction.step_seconds, static_cast<double>(timeline.end) * unit + 1e-6) << mode;
    }
  }
}

TEST(PredictionTest, TheSlowestStageSetsThePaceOfAPipeline) {
  auto costs = ideal_machine(5, 100);
  costs.passes.front().blocks[2].forward = Work::of(10);
  costs.passes.front().blocks[2].backward = Work::of(20);
  // 32 micro-batches of 30 s at the slow stage; 6 s before the first one reaches it and after the last one has left it
  // are hidden by nothing.
  const auto prediction = predicted(planned("pipeline(micro-batches=32)", 1, 5, 32), costs);
  EXPECT_NEAR(prediction.step_seconds, 32 * 30 + 6, 1e-6);
}

TEST(PredictionTest, MessagesAreNotHidden) {
  auto costs = ideal_machine(5, 100);
  costs.message = {.seconds = 0.25};
  const double without = 5 * 3;
  EXPECT_NEAR(predicted(planned("mp", 1, 5, 1), costs).step_seconds, without + 8 * 0.25, 1e-6);
}

TEST(PredictionTest, AnEmulatedStepIsDividedAsTheModeDividesIt) {
  auto costs = ideal_machine(5, 1);
  costs.passes.clear();
  auto plan = planned("ddp", 4, 1, 8);
  plan.emulation = {.step_ns = 1'000'000'000};
  EXPECT_NEAR(predicted(plan, costs).step_seconds, 0.25, 1e-6);
  auto pipeline = planned("pipeline(schedule=gpipe,micro-batches=1)", 1, 5, 8);
  pipeline.emulation = {.step_ns = 1'000'000'000,
                        .network = NetworkModel{.delay_ns = 10'000'000, .bytes_per_second = 1e6}};
  // 8 messages of 10 bytes for each of 8 rows, with a delay each.
  EXPECT_NEAR(predicted(pipeline, costs).step_seconds, 1 + 8 * (0.01 + 80 / 1e6), 1e-6);
}

TEST(PredictionTest, TheLoaderHoldsUpStepsThatAreShorterThanItsBatches) {
  auto costs = ideal_machine(5, 100);
  costs.load = Work::of(100);
  auto plan = planned("single", 1, 1, 1);
  plan.workers = 1;
  const auto prediction = predicted(plan, costs);
  EXPECT_NEAR(prediction.step_seconds, 100, 1e-6);
  EXPECT_NEAR(prediction.load_wait, 0.85, 1e-6);
  plan.workers = 0;
  EXPECT_NEAR(predicted(plan, costs).step_seconds, 115, 1e-6);
}

TEST(PredictionTest, MemoryHasParametersAndWhatIsAlive) {
  auto costs = ideal_machine(5, 100);
  costs.base_bytes = 1e6;
  costs.shares_memory = false;
  costs.passes.front().extra_bytes = 7;  // for a row
  // Parameters, gradients and one slot; activations of 4 rows.
  const double single = 1e6 + 3 * 5 * 4 + 4 * (5 * 100 + 7);
  EXPECT_NEAR(predicted(planned("single", 1, 1, 4), costs).rank_bytes.front(), single, 1e-6);
  const auto pipeline = predicted(planned("pipeline(micro-batches=4)", 1, 5, 4), costs).rank_bytes;
  // Stage 0 of 1f1b keeps 4 micro-batches alive, the last stage one and its input.
  EXPECT_NEAR(pipeline.front(), 1e6 + 3 * 4 + 4 * 100 + 7, 1e-6);
  EXPECT_NEAR(pipeline.back(), 1e6 + 3 * 4 + 100 + 10 + 7, 1e-6);
}

TEST(PredictionTest, ModesOfWhichNothingIsKnownHaveAReasonAndNoShape) {
  const auto costs = ideal_machine(5, 1);
  const PlannedMode own{.plan = {.mesh = {.data = 2}}, .batch_size = 4};  // of a plug-in with a step of its own
  EXPECT_EQ(why_unpredictable(own), "nothing is known of a mode of a plug-in");
  EXPECT_FALSE(shape_of_step(own, facts(), &costs));
  auto plan = planned("zero(stage=3)", 2, 1, 4);
  EXPECT_TRUE(shape_of_step(plan, facts(), &costs));
  plan.emulation = {.step_ns = 1'000'000};
  EXPECT_FALSE(shape_of_step(plan, facts(), &costs));
}

}  // namespace
}  // namespace penstock::detail
