// Ranks that are threads and share one GPU: every mode reaches the parameters of `single` on the CPU.
#include <gmock/gmock.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/device.h"
#include "tests/train/strategy_batches.h"
#include "train/comm/thread_comm.h"

namespace penstock {
namespace {

/// Weights come from the random numbers of the process, so that ranks make their models in turn.
std::unique_ptr<Model> make_lenet_f64() {
  static std::mutex making;
  const std::lock_guard lock(making);
  at::manual_seed(1);
  auto model = ModelRegistry::make(parse_spec("arch", "lenet"), ModelShape{});
  model->to(torch::kFloat64);
  return model;
}

StateDict train_rank(const std::string& mode, const Samples& samples, Comm& comm, const torch::Device& device) {
  StrategyHarness one(mode, make_lenet_f64(), comm, {.learning_rate = 0.05, .momentum = 0.9}, torch::kFloat64, device,
                      {13, 1, 28, 28});
  comm.barrier();  // from here on the comm knows this rank's thread
  for (int64_t i = 0; i < 2; ++i) one.strategy->step(one.part(samples, 13, i));
  return one.strategy->state();
}

/// What rank 0 comes to; what ranks throw is put into `failures`.
StateDict train_two_ranks(const std::string& mode, const Samples& samples, std::vector<std::string>& failures) {
  StateDict state;
  std::mutex failing;
  const auto comms = make_thread_comms(2, /*step_seconds=*/60);
  std::vector<std::thread> threads;
  for (const auto& comm : comms)
    threads.emplace_back([&] {
      try {
        auto own = train_rank(mode, samples, *comm, kGpu);
        if (comm->rank() == 0) state = std::move(own);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(failing);
          failures.emplace_back(error.what());
        }
        comm->abort(error.what());
      }
    });
  for (auto& thread : threads) thread.join();
  for (auto& [name, tensor] : state) tensor = tensor.cpu();
  return state;
}

TEST(CudaThreadRanksTest, EveryModeReachesTheParametersOfTheCpu) {
  const auto samples = random_samples(26, {}, 3);
  const Samples on_gpu{samples.images.to(kGpu), samples.labels.to(kGpu)};
  const auto self = make_self_comm();
  const auto expected = train_rank("single", samples, *self, torch::kCPU);
  for (const std::string mode :
       {"ddp", "ddp(accumulate=2)", "zero", "zero(stage=2)", "mp", "pipeline", "pipeline(schedule=zero-bubble)"}) {
    std::vector<std::string> failures;
    EXPECT_LE(relative_difference(expected, train_two_ranks(mode, on_gpu, failures)), 1e-9) << mode;
    EXPECT_THAT(failures, testing::IsEmpty()) << mode;
  }
}

TEST(CudaThreadRanksTest, AModeThatWaitsInBackwardIsRefusedAtOnce) {
  auto samples = random_samples(26, {}, 3);
  std::vector<std::string> failures;
  train_two_ranks("zero(stage=3)", {samples.images.to(kGpu), samples.labels.to(kGpu)}, failures);
  ASSERT_THAT(failures, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(failures.front(), testing::HasSubstr("is waited for in backward"));
}

}  // namespace
}  // namespace penstock
