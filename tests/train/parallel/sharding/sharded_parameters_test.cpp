// ShardedParameters: units, the order of their collectives, what is whole when, and what is trained.
#include "train/parallel/sharding/sharded_parameters.h"

#include <gtest/gtest.h>

#include <mutex>

#include "core/text.h"
#include "tests/train/lone_comm.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/tensor/ordered_norms.h"
#include "train/tensor/storage.h"

namespace penstock {
namespace {

// In float64 fc1 has 2.5 MB, fc2 and fc3 1.3 MB each, fc4 32 kB: three units, of which fc3 and fc4 are the last.
constexpr const char* kThreeUnits = "mlp(hidden=400:400:400)";
constexpr int64_t kFirst = 785 * 400, kSecond = 401 * 400, kThird = 401 * 400 + 401 * 10;

std::unique_ptr<Model> make_frozen(const std::string& arch, const std::vector<std::string>& frozen) {
  auto model = make(arch);
  for (const auto& module : frozen) model->freeze(module);
  return model;
}

TEST(ShardedParametersTest, AUnitIsAsManyBlocksAsReachItsSize) {
  const auto text = [](const std::vector<int64_t>& bytes) {
    std::vector<std::string> parts;
    for (const auto& unit : detail::assign_units(bytes, 10)) parts.push_back(concat(unit.first, "-", unit.end));
    return join(parts);
  };
  EXPECT_EQ(text({4, 6, 30, 0, 10, 3}), "0-2, 2-3, 3-6");  // what is left belongs to the last unit
  EXPECT_EQ(text({1, 2, 3}), "0-3");
  EXPECT_EQ(text({10, 10}), "0-1, 1-2");
  EXPECT_EQ(text({0}), "0-1");
}

/// The communicator of a single rank, which notes gathers and scatters by their sizes.
class NotingComm final : public LoneComm {
 public:
  std::unique_ptr<Work> reduce_scatter_sum(torch::Tensor& mine, torch::Tensor& all) override {
    note("R", all);
    return LoneComm::reduce_scatter_sum(mine, all);
  }
  std::unique_ptr<Work> all_gather_into(torch::Tensor& all, const torch::Tensor& mine) override {
    note("G", all);
    return LoneComm::all_gather_into(all, mine);
  }

  std::string take() { return join(std::exchange(noted_, {}), " "); }

 private:
  void note(const char* what, const torch::Tensor& all) {
    const std::vector<int64_t> sizes{kFirst, kSecond, kThird};
    const auto found = std::find_if(sizes.begin(), sizes.end(), [&](int64_t size) {
      return all.numel() >= size && all.numel() < size + 6 * detail::kVectorAlignment;  // with --exact there are gaps
    });
    noted_.push_back(concat(what, found == sizes.end() ? -1 : found - sizes.begin()));
  }

  std::vector<std::string> noted_;
};

/// As the drawing in the header has it.
TEST(ShardedParametersTest, ARankWithoutRowsMakesTheCollectivesOfTheOthers) {
  const auto samples = random_samples(4, kGrey, 3);
  NotingComm comm;
  StrategyHarness one("zero(stage=3)", make(kThreeUnits), comm, kSgd);
  comm.take();
  auto batch = one.part(samples, 4, 0);
  for (const int64_t count : {4, 0, 1}) {
    batch.count = count;
    one.strategy->step(batch);
    EXPECT_EQ(comm.take(), "G0 G1 G2 G1 R2 G0 R1 R0") << count << " rows";
  }
  one.strategy->evaluate(batch);
  EXPECT_EQ(comm.take(), "G0 G1 G2");
}

/// One pass per leaf, and gradients are sent in the last one. With 2 of 4 rows the second leaf has none.
TEST(ShardedParametersTest, WithLeavesAllPassesAreGatheredAndTheLastOneIsSent) {
  const auto samples = random_samples(4, kGrey, 3);
  NotingComm comm;
  StrategyHarness one(
      "zero(stage=3)", [] { return make(kThreeUnits); }, comm, kSgd, torch::kFloat64, torch::kCPU, {},
      /*micro_shards=*/2);
  comm.take();
  auto batch = one.part(samples, 4, 0);
  for (const int64_t count : {4, 0, 2}) {
    batch.count = count;
    one.strategy->step(batch);
    EXPECT_EQ(comm.take(), "G0 G1 G2 G1 G0 G0 G1 G2 G1 R2 G0 R1 R0") << count << " rows";
  }
}

/// Backward does not come to a unit of frozen parameters that lies before everything that is trained.
TEST(ShardedParametersTest, FrozenUnitsAreGatheredWhereBackwardNeedsThem) {
  const auto samples = random_samples(4, kGrey, 3);
  const auto collectives = [&](const std::vector<std::string>& frozen) {
    NotingComm comm;
    StrategyHarness one("zero(stage=3)", make_frozen(kThreeUnits, frozen), comm, kSgd);
    comm.take();
    std::string with_rows, without;
    auto batch = one.part(samples, 4, 0);
    one.strategy->step(batch);
    with_rows = comm.take();
    batch.count = 0;
    one.strategy->step(batch);
    EXPECT_EQ(comm.take(), with_rows);
    return with_rows;
  };
  EXPECT_EQ(collectives({"fc1"}), "G0 G1 G2 G1 R2 R1");
  EXPECT_EQ(collectives({"fc2"}), "G0 G1 G2 G1 R2 G0 R0");
}

TEST(ShardedParametersTest, TwoUnitsAreWholeAtMostAndNoneBetweenSteps) {
  const auto samples = random_samples(4, kGrey, 3);
  StateDict state;
  const auto body = [&](Comm& comm) {
    StrategyHarness one("zero(stage=3)", make(kThreeUnits), comm, kSgd);
    const auto whole_bytes = [&] { return detail::storage_bytes(one.model->parameters()); };
    EXPECT_EQ(whole_bytes(), 0);
    for (int step = 0; step < 2; ++step) one.strategy->step(one.part(samples, 4, 0));
    EXPECT_EQ(whole_bytes(), 0);
    const auto memory = one.strategy->memory();
    const int64_t slices = (kFirst + kSecond + kThird) / 2 * 8;
    EXPECT_EQ(memory[0].bytes, slices);
    EXPECT_EQ(memory[0].peak_bytes, slices + (kFirst + kSecond) * 8);
    EXPECT_EQ(memory[1].bytes, slices);
    // The last to start are those of the first unit: on their way with the second one's, and just being copied.
    EXPECT_EQ(memory[1].peak_bytes, slices + (kSecond + 2 * kFirst) * 8);
    auto batch = one.part(samples, 4, 0);
    one.strategy->evaluate(batch);
    if (auto all = one.strategy->state(); comm.rank() == 0) state = std::move(all);
    comm.barrier();
    one.strategy->load_state(state);
    EXPECT_EQ(whole_bytes(), 0);
  };
  run_ranks(2, body, /*step_seconds=*/60, Network::kThreads);
}

/// Batches of 10, 10 and 3 rows over four ranks: one of them has no row of the last one. Single has the same model.
TEST(ShardedParametersTest, UnitsThatAreFrozenAndRanksWithoutRowsTrainWhatSingleTrains) {
  const auto samples = random_samples(23, kGrey, 4);
  const auto train = [&](const std::string& mode, int ranks, const std::vector<std::string>& frozen, Network network) {
    StateDict state;
    const auto body = [&](Comm& comm) {
      StrategyHarness one(mode, make_frozen(kThreeUnits, frozen), comm, kSgd);
      for (int64_t step = 0; step < 3; ++step) {
        one.strategy->step(one.part(samples, 10, step));
        auto batch = one.part(samples, 10, step);
        one.strategy->evaluate(batch);
      }
      auto all = one.strategy->state();
      if (comm.rank() == 0) state = std::move(all);
    };
    run_ranks(ranks, body, /*step_seconds=*/60, network);
    return state;
  };
  for (const std::vector<std::string>& frozen :
       {std::vector<std::string>{}, std::vector<std::string>{"fc1"}, std::vector<std::string>{"fc2", "fc4"}}) {
    const auto expected = train("single", 1, frozen, Network::kThreads);
    for (const auto network : {Network::kGloo, Network::kThreads})
      EXPECT_LE(relative_difference(expected, train("zero(stage=3)", 4, frozen, network)), 1e-12)
          << join(frozen) << (network == Network::kGloo ? ", Gloo" : ", threads");
  }
}

/// BatchNorm, and parameters that forward() does not use.
TEST(ShardedParametersTest, ParametersWithoutGradientsHoldNobodyUp) {
  const ModelShape shape{.channels = 1, .height = 12, .width = 12, .classes = 4};
  const auto samples = random_samples(7, shape, 2);
  StateDict state, expected;
  for (const std::string mode : {"ddp", "zero(stage=3)"})
    run_ranks(3, [&](Comm& comm) {
      static std::mutex mutex;
      std::unique_lock lock(mutex);
      at::manual_seed(1);
      auto model = std::make_unique<TinyNorm>();
      lock.unlock();
      StrategyHarness one(mode, std::move(model), comm, kSgd);
      for (int64_t i = 0; i < 2; ++i) one.strategy->step(one.part(samples, 5, i));
      if (auto all = one.strategy->state(); comm.rank() == 0) (mode == "ddp" ? expected : state) = std::move(all);
    });
  EXPECT_LE(relative_difference(expected, state), 1e-12);
}

}  // namespace
}  // namespace penstock
