// dp: replicas of the model on threads, what they share, and what is refused. That they train what `single` trains is
// in modes_test.cpp.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/parallel/replicas/replica_threads.h"

namespace penstock {
namespace {

using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty;

StateDict trained(const std::string& mode, const std::string& arch, const ModelShape& shape, int64_t batch_size) {
  const auto comm = make_self_comm();
  auto samples = random_samples(3 * batch_size, shape, 3);
  samples.images = samples.images.to(torch::kFloat32);
  const auto make_one = [&] { return make(arch, shape); };
  StrategyHarness one(mode, make_one, *comm, kSgd, torch::kFloat32);
  for (int64_t i = 0; i < 3; ++i) one.strategy->step(one.part(samples, batch_size, i));
  return one.strategy->state();
}

/// Calls `seen` in every forward, on the thread that runs it.
class Watched final : public Model {
 public:
  explicit Watched(std::function<void(const torch::Tensor&)> seen) {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(144, 4));
    add_block("fc", {"fc"}, [fc, seen = std::move(seen)](const torch::Tensor& x) mutable {
      seen(x);
      return fc(x.flatten(1));
    });
  }
};

TEST(DpTest, OneReplicaHasTheBitsOfSingle) {
  at::set_num_threads(1);
  for (const auto& [arch, shape] : {std::pair{"lenet", kSmallGrey}, std::pair{"resnet18", kSmallPhotos}})
    EXPECT_EQ(relative_difference(trained("single", arch, shape, 6), trained("dp(devices=cpu:1)", arch, shape, 6)), 0)
        << arch;
}

TEST(DpTest, TheBitsDoNotDependOnTiming) {
  at::set_num_threads(1);
  const auto expected = trained("dp(devices=cpu:3)", "lenet", kSmallGrey, 13);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(relative_difference(expected, trained("dp(devices=cpu:3)", "lenet", kSmallGrey, 13)), 0);
}

/// Seven rows on two replicas are four and three.
TEST(DpTest, RunningStatisticsAreTheReplicasWeightedByTheirRows) {
  const auto comm = make_self_comm();
  const auto samples = random_samples(14, kSmallGrey, 3);
  StrategyHarness one("dp(devices=cpu:2)", make_tiny, *comm, kSgd);
  torch::Tensor mean = torch::zeros({1}, torch::kFloat64), variance = torch::ones({1}, torch::kFloat64);
  for (int64_t step = 0; step < 2; ++step) {
    one.strategy->step(one.part(samples, 7, step));
    const auto rows = samples.images.narrow(0, 7 * step, 7);
    mean = 0.9 * mean + 0.1 * rows.mean();
    variance = 0.9 * variance + 0.1 * (4 * rows.narrow(0, 0, 4).var() + 3 * rows.narrow(0, 4, 3).var()) / 7;
  }
  const auto state = one.strategy->state();
  EXPECT_TRUE(state.at("model.norm.running_mean").allclose(mean, 1e-12, 1e-12));
  EXPECT_TRUE(state.at("model.norm.running_var").allclose(variance, 1e-12, 1e-12));
  EXPECT_EQ(state.at("model.norm.num_batches_tracked").item<int64_t>(), 2);
}

/// Three rows on two replicas are two and one; and one row on two is one and none.
TEST(DpTest, AReplicaWithOneRowHasTheStatisticsOfItsPlaces) {
  const auto comm = make_self_comm();
  const auto samples = random_samples(3, kSmallGrey, 3);
  StrategyHarness one("dp(devices=cpu:2)", make_tiny, *comm, kSgd);
  one.strategy->step(one.part(samples, 3, 0));
  const auto of_three = 0.1 * samples.images.mean();
  EXPECT_TRUE(one.strategy->state().at("model.norm.running_mean").allclose(of_three, 1e-12, 1e-12));
  one.strategy->step(one.part(samples, 1, 0));
  const auto of_one = 0.9 * of_three + 0.1 * samples.images[0].mean();
  EXPECT_TRUE(one.strategy->state().at("model.norm.running_mean").allclose(of_one, 1e-12, 1e-12));
}

/// Neither the other replicas' forward nor their share of the mean changes the bits of a buffer that stays as it is.
TEST(DpTest, ABufferThatNoForwardChangesKeepsItsBits) {
  const auto make_constant = [] {
    auto model = std::make_unique<TinyNorm>();
    model->register_buffer("constant", torch::full({5}, 0.1));
    return model;
  };
  const auto comm = make_self_comm();
  StrategyHarness one("dp(devices=cpu:3)", make_constant, *comm, kSgd, torch::kFloat32);
  auto samples = random_samples(7, kSmallGrey, 3);
  samples.images = samples.images.to(torch::kFloat32);
  for (int i = 0; i < 3; ++i) one.strategy->step(one.part(samples, 7, 0));
  EXPECT_TRUE(one.strategy->state().at("model.constant").equal(torch::full({5}, 0.1)));
}

TEST(DpTest, EveryReplicasShapesAreToldOnce) {
  const auto comm = make_self_comm();
  const auto samples = random_samples(64, kSmallGrey, 3);
  StrategyHarness one("dp(devices=cpu:3)", make_small_lenet, *comm, kSgd);
  auto batch = one.part(samples, 64, 0);
  one.strategy->evaluate(batch);
  EXPECT_THAT(one.said, IsEmpty());
  for (int i = 0; i < 2; ++i) one.strategy->step(one.part(samples, 64, 0));
  EXPECT_THAT(one.said,
              ElementsAre("replica 0: in 22 x 1 x 12 x 12, out 22 x 4", "replica 1: in 22 x 1 x 12 x 12, out 22 x 4",
                          "replica 2: in 20 x 1 x 12 x 12, out 20 x 4"));
}

/// Each forward waits until the other replica's has begun. If one came after the other, the first would wait in vain.
TEST(DpTest, ReplicasRunAtTheSameTime) {
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0, met = 0;
  const auto make_meeting = [&] {
    return std::make_unique<Watched>([&](const torch::Tensor&) {
      std::unique_lock lock(mutex);
      ++begun;
      changed.notify_all();
      met += changed.wait_for(lock, std::chrono::seconds(60), [&] { return begun == 2; });
    });
  };
  const auto comm = make_self_comm();
  StrategyHarness one("dp(devices=cpu:2)", make_meeting, *comm, kSgd);
  one.strategy->step(one.part(random_samples(4, kSmallGrey, 3), 4, 0));
  EXPECT_EQ(met, 2);
}

TEST(DpTest, IntraOpThreadsAreDividedAmongTheReplicas) {
  std::mutex mutex;
  std::map<int64_t, int> threads;  // by the number of rows of a replica
  const auto make_counting = [&] {
    return std::make_unique<Watched>([&](const torch::Tensor& x) {
      const std::lock_guard lock(mutex);
      threads[x.size(0)] = at::get_num_threads();
    });
  };
  const auto comm = make_self_comm();
  at::set_num_threads(3);
  {
    StrategyHarness one("dp(devices=cpu:2)", make_counting, *comm, kSgd);
    one.strategy->step(one.part(random_samples(5, kSmallGrey, 3), 5, 0));
    EXPECT_EQ(threads, (std::map<int64_t, int>{{3, 2}, {2, 1}}));
    EXPECT_EQ(at::get_num_threads(), 1);
  }
  EXPECT_EQ(at::get_num_threads(), 3);
  at::set_num_threads(1);
}

TEST(DpTest, ReplicasOnTheCpuShareTheParametersAndNotTheGradients) {
  std::vector<Model*> made;
  const auto make_known = [&] {
    auto model = make_small_lenet();
    made.push_back(model.get());
    return model;
  };
  const auto comm = make_self_comm();
  StrategyHarness one("dp(devices=cpu:2)", make_known, *comm, kSgd);
  one.strategy->step(one.part(random_samples(4, kSmallGrey, 3), 4, 0));
  ASSERT_EQ(made.size(), 2U);
  ASSERT_EQ(made[0], one.model.get());
  const auto parameters = made[0]->parameters(), others = made[1]->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].const_data_ptr(), others[i].const_data_ptr());
    EXPECT_NE(parameters[i].grad().const_data_ptr(), others[i].grad().const_data_ptr());
  }
}

TEST(DpTest, WhatAReplicaThrowsIsThrownByTheStep) {
  const auto make_failing = [] {
    return std::make_unique<Watched>([](const torch::Tensor& x) {
      if (x.size(0) == 2) throw device_error("no memory on the second replica; expected more");
    });
  };
  const auto comm = make_self_comm();
  const auto samples = random_samples(8, kSmallGrey, 3);
  StrategyHarness one("dp(devices=cpu:2)", make_failing, *comm, kSgd);
  EXPECT_EQ(message_of(ErrorKind::kDevice, [&] { one.strategy->step(one.part(samples, 5, 0)); }),
            "no memory on the second replica; expected more");
  one.strategy->step(one.part(samples, 8, 0));  // its threads are still there
}

TEST(DpTest, TheBusyTimeOfEachReplicaIsThatOfItsSteps) {
  const auto comm = make_self_comm();
  StrategyHarness one("dp(devices=cpu:2)", make_small_lenet, *comm, kSgd);
  auto batch = one.part(random_samples(4, kSmallGrey, 3), 4, 0);
  one.strategy->evaluate(batch);
  for (const auto& replica : one.strategy->replica_use()) EXPECT_EQ(replica.busy_ms, 0);
  one.strategy->step(batch);
  const auto use = one.strategy->replica_use();
  ASSERT_EQ(use.size(), 2U);
  for (const auto& replica : use) {
    EXPECT_EQ(replica.device, "cpu");
    EXPECT_GT(replica.busy_ms, 0);
  }
}

std::string dp_refusal(const std::string& mode, const MeshRequest& request) {
  return message_of(ErrorKind::kConfig, [&] { plan_of(parse_spec("mode", mode), request); });
}

TEST(DpTest, DevicesThatAreNotThereAreRefused) {
  const MeshRequest cpu{.batch_size = 64, .gpus = 0}, two{.batch_size = 64, .gpus = 2};
  for (const char* text : {"cpu", "cpu:0", "cpu:-1", "cpu:x", "cpu:2:3", "cpu:99999999999"})
    EXPECT_EQ(dp_refusal(concat("dp(devices=", text, ")"), cpu),
              concat("--mode dp: devices is ", text, "; expected a number of replicas from 1 to 65536, such as cpu:4"));
  for (const char* text : {"x", "0:", "-1", "0:cpu:2", "1000"})
    EXPECT_EQ(
        dp_refusal(concat("dp(devices=", text, ")"), {}),
        concat("--mode dp: devices is ", text, "; expected GPUs, such as 0:1, or threads of the CPU, such as cpu:4"));
  EXPECT_EQ(dp_refusal("dp(devices=0:1)", cpu),
            "--mode dp: devices is 0:1 in a run on the CPU; expected threads, such as cpu:2");
  EXPECT_EQ(dp_refusal("dp(devices=cpu:2)", two),
            "--mode dp: devices is cpu:2 in a run on CUDA; expected GPUs, such as 0:1, or --device cpu");
  EXPECT_EQ(dp_refusal("dp(devices=0:2)", two),
            "--mode dp: devices is 0:2, and 2 GPUs are visible; expected numbers below 2");
  EXPECT_EQ(dp_refusal("dp(devices=1:0:1)", two),
            "--mode dp: devices is 1:0:1, which names GPU 1 twice; expected it once");
  EXPECT_EQ(dp_refusal("dp(devices=0:1,output-device=2)", two),
            "--mode dp: output-device is 2; expected one of the GPUs of devices");
  EXPECT_EQ(dp_refusal("dp(output-device=0)", cpu),
            "--mode dp: output-device is 0; expected none where the replicas are on the CPU");
}

TEST(DpTest, ReplicasWithoutRowsAreRefused) {
  EXPECT_EQ(dp_refusal("dp(devices=cpu:5)", {.batch_size = 4, .gpus = 0}),
            "--mode dp: 5 replicas for --batch-size 4, each with up to 1 row; expected 4, all with rows");
  EXPECT_EQ(dp_refusal("dp(devices=cpu:4)", {.batch_size = 6, .gpus = 0}),
            "--mode dp: 4 replicas for --batch-size 6, each with up to 2 rows; expected 3, all with rows");
}

TEST(DpTest, ItIsOneRankThatNamesItsDevices) {
  const auto mesh = [](const std::string& mode, const MeshRequest& request) {
    return plan_of(parse_spec("mode", mode), request).mesh;
  };
  EXPECT_EQ(mesh("dp", {.gpus = 0}), (Mesh{.replicas = 2}));
  EXPECT_EQ(mesh("dp", {.gpus = 3}), (Mesh{.replicas = 3, .gpus = {0}}));
  EXPECT_EQ(mesh("dp(devices=2:0,output-device=0)", {.ranks = 1, .batch_size = 2, .gpus = 3}),
            (Mesh{.replicas = 2, .gpus = {0}}));
  EXPECT_EQ(mesh("dp(devices=2:0)", {.gpus = 3}), (Mesh{.replicas = 2, .gpus = {2}}));
  EXPECT_EQ(dp_refusal("dp", {.ranks = 2, .gpus = 0}),
            "--mode dp: launched with 2 ranks; expected 1, whose replicas are threads (use --mode ddp)");
}

TEST(ReplicaThreadsTest, TheErrorOfTheLowestReplicaIsRethrownAfterAllHaveEnded) {
  detail::ReplicaThreads threads(std::vector<torch::Device>(4, torch::kCPU), 1);
  std::atomic<int> ended = 0;
  const auto fail = [&](size_t replica) {
    ++ended;
    if (replica % 2 == 1) throw config_error(concat("replica ", replica));
  };
  for (int i = 0; i < 100; ++i) {
    ended = 0;
    EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { threads.run(fail); }), "replica 1");
    EXPECT_EQ(ended, 4);
  }
}

TEST(ReplicaThreadsTest, TheCallersModesHoldInThem) {
  detail::ReplicaThreads threads(std::vector<torch::Device>(2, torch::kCPU), 1);
  std::atomic<int> enabled = 0;
  const auto count = [&](size_t) { enabled += torch::GradMode::is_enabled(); };
  threads.run(count);
  EXPECT_EQ(enabled, 2);
  {
    at::NoGradGuard no_grad;
    threads.run(count);
  }
  EXPECT_EQ(enabled, 2);
}

}  // namespace
}  // namespace penstock
