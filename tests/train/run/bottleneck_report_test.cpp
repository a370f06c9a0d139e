// BottleneckReport: which earlier run's prediction is used, and how its error is reported.
#include "train/run/bottleneck_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class PastPredictionTest : public testing::Test {
 protected:
  /// A run's summary that predicts 1000 * w images/s for w workers, `age` hours old.
  void write_summary(const std::string& run, int workers, const nlohmann::json& configuration, int age,
                     int format = kSummaryFormat) {
    nlohmann::json json{{"format", format}, {"workers", workers}, {"configuration", configuration}};
    for (int other = 0; other < 4; ++other)
      json["limit"]["predictions"].push_back({{"workers", other}, {"images_per_second", 1000.0 * other}});
    write(run, json.dump());
    fs::last_write_time(folder_.path() / run / "summary.json",
                        fs::file_time_type::clock::now() - std::chrono::hours(age));
  }
  void write(const std::string& run, const std::string& text) {
    fs::create_directories(folder_.path() / run);
    std::ofstream(folder_.path() / run / "summary.json") << text;
  }
  std::optional<PastPrediction> find(int workers) {
    lines_.clear();
    return find_past_prediction(folder_.path() / "now", kConfiguration, of_workers(workers),
                                [&](const std::string& line) { lines_.push_back(line); });
  }

  static Settings of_workers(int workers) { return {{"workers", workers}, {"batch-size", 0}, {"micro-batches", 1}}; }

  const nlohmann::json kConfiguration{{"arch", "lenet"}, {"cores", 2}};
  TemporaryFolder folder_{"verdict"};
  std::vector<std::string> lines_;
};

TEST_F(PastPredictionTest, IsTheNewestOfTheSameConfigurationWithOtherWorkers) {
  EXPECT_FALSE(find(2));
  write_summary("older", 0, kConfiguration, 3);
  write_summary("newer", 1, kConfiguration, 2);
  write_summary("same workers", 2, kConfiguration, 1);
  write_summary("other model", 1, {{"arch", "mlp"}, {"cores", 2}}, 1);
  write_summary("now", 1, kConfiguration, 0);  // in this run's own folder; it will be replaced
  const auto past = find(2);
  ASSERT_TRUE(past);
  EXPECT_EQ(past->summary, folder_.path() / "newer" / "summary.json");
  EXPECT_EQ(past->setting, "workers");
  EXPECT_EQ(past->value, 1);
  EXPECT_EQ(past->images_per_second, 2000);
  EXPECT_THAT(lines_, testing::IsEmpty());
  EXPECT_FALSE(find(9));  // no run has a prediction for so many
}

TEST_F(PastPredictionTest, TheFolderIsNamedAsTheRunsOwn) {
  write_summary("runs/a", 1, kConfiguration, 1);
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  for (const char* out : {"runs/b", "runs/b/", "./runs/b", "runs/../runs/b"}) {
    const auto past = find_past_prediction(out, kConfiguration, of_workers(2), [](const std::string&) {});
    ASSERT_TRUE(past) << out;
    EXPECT_EQ(past->summary.lexically_normal(), "runs/a/summary.json") << out;
  }
  fs::current_path(folder_.path() / "runs");
  const auto past = find_past_prediction("b", kConfiguration, of_workers(2), [](const std::string&) {});
  fs::current_path(before);
  ASSERT_TRUE(past);
  EXPECT_EQ(past->summary, "a/summary.json");
}

TEST_F(PastPredictionTest, WhatCannotBeComparedIsSaid) {
  write_summary("old", 1, kConfiguration, 1, 1);
  EXPECT_FALSE(find(2));
  EXPECT_THAT(lines_,
              testing::ElementsAre(testing::EndsWith("old/summary.json is of format 1; expected 2, not compared")));
  fs::remove_all(folder_.path() / "old");
  write("damaged", "{\"format\": 2, ");
  EXPECT_FALSE(find(2));
  EXPECT_THAT(lines_, testing::ElementsAre(testing::HasSubstr("damaged/summary.json: ")));
  write("damaged too", "{\"format\": 2, \"limit\": 3}");
  EXPECT_FALSE(find(2));
  EXPECT_THAT(lines_, testing::ElementsAre(testing::HasSubstr("(and 1 more like it), not compared")));
}

TEST_F(PastPredictionTest, ABatchSizeAndMicroBatchesArePredictedToo) {
  const auto summary_of = [](const std::string& mode, int batch_size, int micro_batches) {
    return nlohmann::json{{"format", kSummaryFormat},
                          {"workers", 1},
                          {"batch_size", batch_size},
                          {"micro_batches", micro_batches},
                          {"configuration", {{"mode", mode}, {"batch-size", batch_size}}},
                          {"limit",
                           {{"predictions", {{{"workers", 1}, {"images_per_second", 100}}}},
                            {"setting_predictions",
                             {{{"setting", "batch-size"}, {"value", 256}, {"images_per_second", 200}},
                              {{"setting", "micro-batches"}, {"value", 8}, {"images_per_second", 300}}}}}}}
        .dump();
  };
  const auto find_for = [&](const std::string& mode, int batch_size, int micro_batches) {
    return find_past_prediction(folder_.path() / "now", {{"mode", mode}, {"batch-size", batch_size}},
                                {{"workers", 1}, {"batch-size", batch_size}, {"micro-batches", micro_batches}},
                                [](const std::string&) {});
  };
  write("ddp", summary_of("ddp", 64, 1));
  const auto batch = find_for("ddp", 256, 1);
  ASSERT_TRUE(batch);
  EXPECT_EQ(comparison_text(*batch, {{"batch-size", 256}}, {.images_per_second = 160}),
            concat("prediction: ", (folder_.path() / "ddp").string(),
                   " (-b 64) said 200 images/s for -b 256; it was 160 images/s: 25.0 % too much"));
  EXPECT_FALSE(find_for("ddp", 128, 1));   // no prediction for this value
  EXPECT_FALSE(find_for("zero", 256, 1));  // another mode
  EXPECT_FALSE(find_for("ddp", 256, 8));   // two settings differ
  write("pipeline", summary_of("pipeline(cut=fc1,micro-batches=4)", 64, 4));
  const auto more = find_for("pipeline(micro-batches=8,cut=fc1)", 64, 8);
  ASSERT_TRUE(more);
  EXPECT_EQ(more->setting, "micro-batches");
  EXPECT_EQ(more->value, 4);
  EXPECT_EQ(more->images_per_second, 300);
  fs::remove_all(folder_.path() / "pipeline");
  write("mp", summary_of("mp(cut=fc1)", 64, 1));
  EXPECT_TRUE(find_for("pipeline(cut=fc1,micro-batches=8)", 64, 8));  // mp is a pipeline of one
}

TEST_F(PastPredictionTest, TheErrorIsOfWhatWasMeasured) {
  const PastPrediction past{"runs/a/summary.json", 1, 14'300};
  EXPECT_EQ(comparison_text(past, of_workers(2), {.workers = 2, .images_per_second = 13'900}),
            "prediction: runs/a (1 worker) said 14,300 images/s for 2 workers; it was 13,900 images/s: 2.9 % too much");
  EXPECT_EQ(
      comparison_text(past, of_workers(2), {.workers = 2, .images_per_second = 15'000, .is_emulated = true}),
      "prediction: runs/a (1 worker) said 14,300 images/s for 2 workers; it was 15,000 images/s: 4.7 % too little "
      "[emulated]");
}

TEST_F(PastPredictionTest, ARangeIsComparedToo) {
  write(
      "runs",
      nlohmann::json{
          {"format", kSummaryFormat},
          {"workers", 1},
          {"configuration", kConfiguration},
          {"limit", {{"predictions", {{{"workers", 2}, {"images_per_second", 1500}, {"low", 1000}, {"high", 2000}}}}}}}
          .dump());
  const auto past = find(2);
  ASSERT_TRUE(past);
  EXPECT_EQ(past->low, 1000);
  EXPECT_EQ(past->high, 2000);
  EXPECT_THAT(comparison_text(*past, of_workers(2), {.workers = 2, .images_per_second = 1200}),
              testing::EndsWith(": 25.0 % too much, within its range of 1,000 images/s to 2,000 images/s"));
  EXPECT_THAT(comparison_text(*past, of_workers(2), {.workers = 2, .images_per_second = 2500}),
              testing::EndsWith(": 40.0 % too little, outside its range of 1,000 images/s to 2,000 images/s"));
}

StepTimes step_of(double wait, double forward, double communication, double process_cpu, double queued) {
  StepTimes step;
  step[Phase::kWait] = wait;
  step[Phase::kForward] = forward;
  step[Phase::kCommunication] = communication;
  step.process_cpu = process_cpu;
  step.queued = queued;
  return step;
}

TEST(ObserveTest, WithoutWorkersTheWaitIsTheLoad) {
  LoaderStatistics loader;
  loader.workers = {{.busy_ms = 600}};
  const auto run = observe({.workers = 0}, step_of(6, 4, 0, 9, 1), loader, 100);
  EXPECT_DOUBLE_EQ(run.step_ms, 10);
  EXPECT_DOUBLE_EQ(run.times.load_ms, 5.4);  // in a tenth of the step it queued for a core
  EXPECT_DOUBLE_EQ(run.times.load_cpu_ms, 5.4);
  EXPECT_DOUBLE_EQ(run.times.update_ms, 3.6);
  EXPECT_DOUBLE_EQ(run.times.update_cpu_ms, 3.6);
}

TEST(ObserveTest, WorkersAreMeasuredByThemselves) {
  LoaderStatistics loader;
  loader.workers = {{.busy_ms = 400, .cpu_ms = 250, .queued_ms = 50}, {.busy_ms = 400, .cpu_ms = 250, .queued_ms = 50}};
  const auto run = observe({.workers = 2}, step_of(2, 6, 2, 9, 1), loader, 100);
  EXPECT_DOUBLE_EQ(run.times.load_cpu_ms, 5);
  EXPECT_DOUBLE_EQ(run.times.load_ms, 7);    // of which 2 ms are for the disk
  EXPECT_DOUBLE_EQ(run.times.update_ms, 7);  // without 1 ms in the queue; in the other 2 ms the thread slept
  EXPECT_DOUBLE_EQ(run.times.update_cpu_ms, 4);
  EXPECT_DOUBLE_EQ(run.times.communication_ms, 2);
  EXPECT_DOUBLE_EQ(run.loader_idle_share, 0.6);  // 800 of 2 x 1000 ms
}

TEST(ObserveTest, WaitingForTheStorageIsNoProcessorTime) {
  LoaderStatistics loader;
  loader.sample_bytes = 300'000;
  loader.read.count = 100;
  loader.workers = {{.busy_ms = 500, .cpu_ms = 100, .queued_ms = 50, .storage_ms = 350}};
  auto run = observe({.workers = 1}, step_of(4, 4, 0, 5, 1), loader, 100);
  EXPECT_DOUBLE_EQ(run.times.load_ms, 4.5);
  EXPECT_DOUBLE_EQ(run.times.load_cpu_ms, 1);
  EXPECT_DOUBLE_EQ(run.times.storage_ms, 3.5);
  EXPECT_DOUBLE_EQ(run.image_bytes, 3000);
  EXPECT_DOUBLE_EQ(run.queued_ms, 1.5);
  run = observe({.workers = 0}, step_of(5, 3, 0, 4.5, 0), loader, 100);  // the training thread itself waited
  EXPECT_DOUBLE_EQ(run.times.load_ms, 5);
  EXPECT_DOUBLE_EQ(run.times.storage_ms, 3.5);
  EXPECT_DOUBLE_EQ(run.times.load_cpu_ms, 1.5);
  EXPECT_DOUBLE_EQ(run.times.update_cpu_ms, 3);
}

TEST(ObserveTest, TheStepOfSeveralThreadsIsWithoutTheirWaitsForEachOther) {
  LoaderStatistics loader;
  loader.workers = {{.busy_ms = 400, .cpu_ms = 300, .queued_ms = 100}};
  const StepTimes step = step_of(1, 9, 0, 17, 1);
  // Threads queued for 5 ms: 1 ms the worker, 1 ms the training thread, 3 ms the thread that computes with it.
  const auto one = observe({.times = {.update_threads = 1}, .workers = 1, .process_queued_ms = 5}, step, loader, 100);
  EXPECT_DOUBLE_EQ(one.times.update_ms, 8.1);  // at least the time that it ran
  EXPECT_DOUBLE_EQ(one.times.update_cpu_ms, 14);
  EXPECT_DOUBLE_EQ(one.queued_ms, 2);
  const auto two = observe({.times = {.update_threads = 2}, .workers = 1, .process_queued_ms = 5}, step, loader, 100);
  EXPECT_DOUBLE_EQ(two.times.update_ms, 5);
  EXPECT_DOUBLE_EQ(two.times.update_cpu_ms, 10);  // the thread that waited for the other one was running
  EXPECT_DOUBLE_EQ(two.queued_ms, 5);
}

TEST(ObserveTest, WhatOthersHadIsWhatTheRanksHadNot) {
  LoaderStatistics loader;
  loader.workers = {{.busy_ms = 400, .cpu_ms = 400, .queued_ms = 200}};
  StepTimes step = step_of(2, 8, 0, 10, 1);
  step.busy_cores = 19;  // of the 20 ms of two cores
  auto run = observe({.times = {.cores = 2}, .workers = 1}, step, loader, 100);
  run = over_ranks(run, {run});
  EXPECT_DOUBLE_EQ(run.times.other_threads, 0.9 * 1.3);  // this run had 1 core and queued for 0.3 more
  EXPECT_NEAR(other_cores(run), 0.9, 1e-9);
  EXPECT_EQ(find_bottleneck(run).predictions.size(), 9U);
  run.times.ranks = 2;  // the other rank used the rest
  EXPECT_EQ(over_ranks(run, {run, run}).times.other_threads, 0);
}

TEST(ObserveTest, ADevicesPhasesHoldNoQueueing) {
  LoaderStatistics loader;
  loader.workers = {{.busy_ms = 600}};
  const auto run = observe({.times = {.is_async = true}, .workers = 0}, step_of(5, 1, 0, 7, 1), loader, 100);
  EXPECT_DOUBLE_EQ(run.times.load_ms, 6);
  EXPECT_DOUBLE_EQ(run.times.update_ms, 1);
}

TEST(ObserveTest, WaitingForARankThatWaitsForItsLoaderIsLoading) {
  const auto rank = [](double wait, double load, double communication) {
    return LoopMeasurement{.times = {.load_ms = load,
                                     .load_cpu_ms = load,
                                     .update_ms = 5,
                                     .update_cpu_ms = 2,
                                     .communication_ms = communication},
                           .workers = 1,
                           .step_ms = 10,
                           .wait_ms = wait};
  };
  const auto run = over_ranks(rank(1, 4, 4), {rank(1, 4, 4), rank(4, 8, 1)});
  EXPECT_DOUBLE_EQ(run.wait_ms, 4);
  EXPECT_DOUBLE_EQ(run.times.communication_ms, 1);
  EXPECT_DOUBLE_EQ(run.times.update_ms, 2);
  EXPECT_DOUBLE_EQ(run.times.load_ms, 8);
  EXPECT_DOUBLE_EQ(run.times.load_cpu_ms, 6);
}

}  // namespace
}  // namespace penstock
