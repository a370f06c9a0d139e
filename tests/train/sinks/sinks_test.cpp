// Sinks: the files of a run, and the lines that people see. TensorBoard's own package reads the events in tests/tools.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/train/small_dataset.h"
#include "train/loop/progress.h"
#include "train/run/run_folder.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

Metrics epoch_metrics(int64_t epoch) {
  Metrics metrics;
  metrics.kind = Metrics::Kind::kEpoch;
  metrics.epoch = epoch;
  metrics.epoch_count = 10;
  metrics.step = 100 * epoch;
  metrics.loss = 0.50434;
  metrics.seconds = 3.14;
  metrics.load_ms = 0.44;
  metrics.update_ms = 1.16;
  return metrics;
}

std::unique_ptr<Sink> sink_of(const std::string& name, const std::filesystem::path& folder, int64_t resumed_step = -1) {
  return SinkRegistry::make(parse_spec("sink", name), SinkContext{folder, resumed_step, std::cout});
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(TerminalSinkTest, AnEpochIsOneLineOfTheKnownForm) {
  std::ostringstream out;
  const auto sink = SinkRegistry::make(parse_spec("sink", "terminal"), SinkContext{"", -1, out});
  sink->write(epoch_metrics(1));
  Metrics step;
  sink->write(step);
  EXPECT_EQ(out.str(), "Epoch [1/10], Loss: 0.5043, Dur: 3.1 s, load 0.4 ms, update 1.2 ms\n");
}

TEST(SinkTest, WhatCompressionCostsStandsInTheRecordOfItsStep) {
  const TemporaryFolder folder("compression");
  std::ostringstream out;
  Metrics step{.epoch = 2, .epoch_count = 10, .step = 100, .loss = 0.50434};
  const auto sinks = make_sinks({folder.path(), -1, out});
  for (const auto& sink : sinks) sink->write(step);
  EXPECT_EQ(out.str(), "");
  step.compression_error = 0.3142;
  for (const auto& sink : sinks) sink->write(step);
  EXPECT_EQ(out.str(), "Epoch [2/10], step 100, Loss: 0.5043, compression error 0.31\n");
  const auto lines = lines_of(folder.path() / "metrics.jsonl");
  EXPECT_FALSE(nlohmann::json::parse(lines[0]).contains("compression_error"));
  EXPECT_EQ(nlohmann::json::parse(lines[1])["compression_error"], 0.3142);
}

TEST(TerminalSinkTest, AnEmulatedStepHasNoLoss) {
  auto metrics = epoch_metrics(1);
  metrics.is_emulated = true;
  EXPECT_EQ(epoch_line(metrics), "Epoch [1/10], Loss: 0.5043, Dur: 3.1 s, load 0.4 ms, update 1.2 ms [emulated]");
  metrics.learns = false;
  EXPECT_EQ(epoch_line(metrics), "Epoch [1/10], Dur: 3.1 s, load 0.4 ms, update 1.2 ms [emulated]");
  EXPECT_EQ(bar_line({.epoch = 1, .epoch_count = 10, .step_count = 10}).find("loss"), std::string::npos);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

TEST(SinkTest, AFileThatIsRemovedMeanwhileIsWrittenAnewWithAllThatStoodInIt) {
  const TemporaryFolder folder("removed-metrics");
  std::ostringstream out;
  const auto sinks = make_sinks({folder.path(), -1, out});
  const auto write = [&](int64_t epoch) {
    for (const auto& sink : sinks) sink->write(epoch_metrics(epoch));
  };
  write(1);
  std::map<std::filesystem::path, std::string> before;
  for (const auto& file : files_in(folder.path())) before[file] = text_of(file);
  ASSERT_EQ(before.size(), 3U);
  for (const auto& [file, text] : before) std::filesystem::remove(file);
  write(2);
  for (const auto& [file, text] : before) {
    const std::string now = text_of(file);
    EXPECT_TRUE(now.starts_with(text)) << file;
    EXPECT_GT(now.size(), text.size()) << file;
  }
}

TEST(SinkTest, AFolderThatIsRemovedMeanwhileIsAnIoError) {
  const TemporaryFolder folder("removed-folder");
  const auto out = folder.path() / "run";
  std::filesystem::create_directory(out);
  const auto sink = sink_of("jsonl", out);
  std::filesystem::remove_all(out);
  const auto message = message_of(ErrorKind::kIo, [&] { sink->write(epoch_metrics(1)); });
  EXPECT_NE(message.find((out / "metrics.jsonl").string() + ": No such file or directory"), std::string::npos)
      << message;
}

TEST(SinkTest, AFileThatWasPutInItsPlaceGrowsFromThereOn) {
  const TemporaryFolder folder("replaced-metrics");
  const auto path = folder.path() / "metrics.jsonl";
  const auto sink = sink_of("jsonl", folder.path());
  sink->write(epoch_metrics(1));
  std::ofstream(path.string() + ".new") << "edited\n";
  std::filesystem::rename(path.string() + ".new", path);
  sink->write(epoch_metrics(2));
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "edited");
}

TEST(ProgressBarTest, TheLineSaysLossRateLoadAndTimeLeft) {
  EXPECT_EQ(bar_line({.epoch = 2,
                      .epoch_count = 10,
                      .step = 250,
                      .step_count = 1000,
                      .loss = 0.3121,
                      .images_per_second = 8123.4,
                      .load_share = 0.041,
                      .seconds_left = 65.2}),
            "[#####...............] 2/10 250/1000  loss 0.3121  8123 images/s  load 4 %  1:05 left");
}

TEST(ProgressBarTest, TheLossRunsFromTheFirstStep) {
  EXPECT_EQ(running_loss({}, {}, 0), std::nullopt);
  EXPECT_EQ(running_loss({}, {.loss = 6, .sample_count = 2}, 2), 3);
  EXPECT_EQ(running_loss({}, {.loss = 6, .sample_count = 2}, 4), 3);  // the other rank's samples count as like these
  EXPECT_EQ(running_loss({.loss = 4, .sample_count = 4}, {.loss = 6, .sample_count = 2}, 4), 2);
  EXPECT_EQ(running_loss({.loss = 4, .sample_count = 4}, {}, 0), 1);
}

TEST(ProgressBarTest, APipeGetsNothing) {
  std::ostringstream out;
  ProgressBar bar(out, /*is_on=*/false);
  EXPECT_FALSE(bar.is_due());
  bar.show({});
  bar.clear();
  EXPECT_EQ(out.str(), "");
}

TEST(ProgressBarTest, TheLineIsRewrittenAndCleared) {
  std::ostringstream out;
  ProgressBar bar(out, /*is_on=*/true);
  bar.show({.epoch = 1, .epoch_count = 1});
  bar.clear();
  EXPECT_EQ(out.str().front(), '\r');
  EXPECT_TRUE(out.str().ends_with("\r\x1b[K"));
  EXPECT_EQ(out.str().find('\n'), std::string::npos);
}

TEST(JsonlSinkTest, EveryLineIsAnObjectWithKindStepAndPhases) {
  const TemporaryFolder folder("jsonl");
  const auto sink = sink_of("jsonl", folder.path());
  Metrics step;
  step.step = 50;
  sink->write(step);
  auto epoch = epoch_metrics(1);
  epoch.test_accuracy = 0.75;
  sink->write(epoch);
  const auto lines = lines_of(folder.path() / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(lines[0])["kind"], "step");
  EXPECT_FALSE(nlohmann::json::parse(lines[0]).contains("test_accuracy"));
  const auto json = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(json["kind"], "epoch");
  EXPECT_EQ(json["step"], 100);
  EXPECT_EQ(json["test_accuracy"], 0.75);
  EXPECT_EQ(json["phase_ms"].size(), static_cast<size_t>(kPhaseCount));
}

TEST(SinkTest, AResumedRunDropsWhatLiesBehindItsCheckpoint) {
  const TemporaryFolder folder("resumed");
  {
    const auto jsonl = sink_of("jsonl", folder.path()), csv = sink_of("csv", folder.path());
    for (int64_t epoch = 1; epoch <= 4; ++epoch) {
      jsonl->write(epoch_metrics(epoch));
      csv->write(epoch_metrics(epoch));
    }
  }
  std::ofstream(folder.path() / "metrics.jsonl", std::ios::app) << "{\"kind\": \"epo";  // the run was killed here
  const auto jsonl = sink_of("jsonl", folder.path(), 200), csv = sink_of("csv", folder.path(), 200);
  jsonl->write(epoch_metrics(3));
  csv->write(epoch_metrics(3));
  EXPECT_EQ(lines_of(folder.path() / "metrics.jsonl").size(), 3u);
  const auto rows = lines_of(folder.path() / "metrics.csv");
  ASSERT_EQ(rows.size(), 4u);  // with the header
  EXPECT_TRUE(rows[0].starts_with("epoch,step,loss"));
  EXPECT_TRUE(rows[3].starts_with("3,300,"));
}

TEST(SinkTest, ARunThatBeginsWithAnEvaluationDropsTheEndOfThatEpoch) {
  const TemporaryFolder folder("before-evaluation");
  for (const char* name : {"jsonl", "csv"}) {
    {
      const auto sink = sink_of(name, folder.path());
      for (int64_t epoch = 1; epoch <= 3; ++epoch) {
        sink->write({.epoch = epoch, .step = epoch * 100});  // the last step, of which only metrics.jsonl has a line
        sink->write(epoch_metrics(epoch));
      }
    }
    SinkRegistry::make(parse_spec("sink", name), SinkContext{folder.path(), 200, std::cout, /*ended_epochs=*/1});
  }
  const auto lines = lines_of(folder.path() / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(nlohmann::json::parse(lines[2])["kind"], "step");
  EXPECT_EQ(lines_of(folder.path() / "metrics.csv").size(), 2u);  // with the header
}

TEST(CsvSinkTest, EveryRowHasTheHeadersColumns) {
  const TemporaryFolder folder("csv");
  sink_of("csv", folder.path())->write(epoch_metrics(1));
  const auto rows = lines_of(folder.path() / "metrics.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(split(rows[0], ',').size(), split(rows[1], ',').size());
}

TEST(CsvSinkTest, OtherScoresThanAccuracyHaveColumnsOfTheirOwn) {
  const TemporaryFolder folder("csv-scores");
  const auto sink = SinkRegistry::make(
      parse_spec("sink", "csv"), SinkContext{folder.path(), -1, std::cout, INT64_MAX, {"mean_absolute_error", "rmse"}});
  auto metrics = epoch_metrics(1);
  sink->write(metrics);  // an epoch without an evaluation
  metrics.test_scores = {{"mean_absolute_error", 0.25}, {"rmse", 0.5}};
  sink->write(metrics);
  const auto rows = lines_of(folder.path() / "metrics.csv");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[0].ends_with(",loader_idle_share,test_mean_absolute_error,test_rmse"));
  EXPECT_TRUE(rows[1].ends_with(",,"));
  EXPECT_TRUE(rows[2].ends_with(",0.25,0.5"));
  EXPECT_EQ(split(rows[2], ',').size(), split(rows[0], ',').size());
}

TEST(CsvSinkTest, AResumedRunKeepsTheColumnsOfItsFile) {
  const TemporaryFolder folder("csv-resumed");
  const auto sink_with = [&](int64_t resumed_step, const std::vector<std::string>& scores) {
    return SinkRegistry::make(parse_spec("sink", "csv"),
                              SinkContext{folder.path(), resumed_step, std::cout, INT64_MAX, scores});
  };
  sink_with(-1, {"rmse"})->write(epoch_metrics(1));
  auto metrics = epoch_metrics(2);
  metrics.test_scores = {{"mean_absolute_error", 0.25}, {"rmse", 0.5}};
  sink_with(metrics.step, {"mean_absolute_error", "rmse"})->write(metrics);
  const auto rows = lines_of(folder.path() / "metrics.csv");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[2].ends_with(",0.5"));
  EXPECT_EQ(split(rows[2], ',').size(), split(rows[0], ',').size());
}

/// The files of a registered sink count as files of a run without being listed elsewhere.
TEST(SinkTest, TheFilesOfEverySinkAreThoseThatItNamesAndGoWithTheRun) {
  auto metrics = epoch_metrics(1);
  metrics.gpu_samples = {GpuSample{}};  // so that every sink has something to write
  for (const auto& [name, entry] : SinkRegistry::entries()) {
    const TemporaryFolder folder(name);
    std::ostringstream out;
    SinkRegistry::make(parse_spec("sink", name), SinkContext{folder.path(), -1, out})->write(metrics);
    EXPECT_EQ(std::filesystem::is_empty(folder.path()), entry.traits.files.empty()) << name;
    std::ofstream(folder.path() / "options.json") << "{}";
    RunFolder(folder.path(), /*is_resumed=*/false);
    EXPECT_EQ(files_in(folder.path()), std::vector{folder.path() / "options.json"}) << name;
  }
}

/// In a folder in which others may write.
TEST(SinkTest, NoLinkIsFollowed) {
  const TemporaryFolder folder("linked-metrics");
  const auto users = folder.path() / "users", path = folder.path() / "metrics.jsonl";
  std::ofstream(users) << "mine\n";
  std::filesystem::create_symlink(users, path);
  const auto sink = sink_of("jsonl", folder.path());
  sink->write(epoch_metrics(1));
  std::filesystem::remove(path);
  std::filesystem::create_symlink(users, path);  // while the run goes on
  sink->write(epoch_metrics(2));
  EXPECT_EQ(text_of(users), "mine\n");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
  EXPECT_EQ(lines_of(path).size(), 2U);
}

TEST(SinkTest, ARunGoesOnWithRegularFilesOnly) {
  for (const char* name : {"jsonl", "csv", "gpu"}) {
    const TemporaryFolder folder("odd-metrics");
    const auto path = folder.path() / SinkRegistry::entry(name).traits.files;
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const auto resumed = [&] { sink_of(name, folder.path(), 100); };
    EXPECT_EQ(message_of(ErrorKind::kIo, resumed), path.string() + ": not a regular file; expected one");
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/dev/zero", path);
    EXPECT_EQ(message_of(ErrorKind::kIo, resumed), path.string() + ": not a regular file; expected one");
  }
}

TEST(SinkTest, ARunHasOneOfEachThatIsRegistered) {
  const TemporaryFolder folder("sinks");
  std::ostringstream out;
  EXPECT_EQ(make_sinks({folder.path(), -1, out}).size(), SinkRegistry::names().size());
}

TEST(SinkTest, AFolderThatIsNotThereIsAnIoError) {
  message_of(ErrorKind::kIo, [] { sink_of("jsonl", "/nonexistent/folder"); });
}

TEST(RunFolderTest, SomebodysFilesAreNotWrittenInto) {
  const TemporaryFolder folder("run-folder");
  std::ofstream(folder.path() / "thesis.txt") << "mine";
  const auto message = message_of(ErrorKind::kConfig, [&] { RunFolder(folder.path(), /*is_resumed=*/false); });
  EXPECT_NE(message.find("no options.json"), std::string::npos) << message;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "thesis.txt"));
}

TEST(RunFolderTest, AnEarlierRunIsReplacedUnlessItIsResumed) {
  const TemporaryFolder folder("run-folder-again");
  for (const char* name :
       {"options.json", "metrics.jsonl", "events.out.tfevents.1.host.2", "checkpoint-last.safetensors", "note.txt"})
    std::ofstream(folder.path() / name) << "x";
  RunFolder(folder.path(), /*is_resumed=*/true);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "metrics.jsonl"));
  RunFolder(folder.path(), /*is_resumed=*/false);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "events.out.tfevents.1.host.2"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "note.txt"));
  // Without it this would be the folder of no run, if the run were killed now.
  EXPECT_NO_THROW(check_run_folder(folder.path()));
}

TEST(RunFolderTest, WhatAKilledRunHasLeftHalfWrittenIsNothingAndGoes) {
  for (const char* name :
       {".penstock-0.tmp", "options.json.tmp", "checkpoint-last.safetensors.tmp", "trace-rank-3.json.tmp"}) {
    const TemporaryFolder folder("left-over");
    std::ofstream(folder.path() / name) << "{";
    EXPECT_NO_THROW(check_run_folder(folder.path())) << name;
    RunFolder(folder.path(), /*is_resumed=*/true);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << name;
    std::ofstream(folder.path() / name) << "{";
    std::ofstream(folder.path() / "thesis.txt") << "mine";
    message_of(ErrorKind::kConfig, [&] { check_run_folder(folder.path()); });
  }
}

TEST(RunFolderTest, ASecondRunIsRefusedAsLongAsTheFirstOneLasts) {
  const TemporaryFolder folder("run-folder-twice");
  {
    const RunFolder first(folder.path(), /*is_resumed=*/false);
    const auto message = message_of(ErrorKind::kConfig, [&] { RunFolder(folder.path(), /*is_resumed=*/true); });
    EXPECT_NE(message.find("another run is writing into it"), std::string::npos) << message;
  }
  EXPECT_NO_THROW(RunFolder(folder.path(), /*is_resumed=*/false));
}

TEST(RunFolderTest, ANameThatCannotBeOneIsAnIoError) {
  const auto message = message_of(ErrorKind::kIo, [] { check_run_folder(std::string(300, 'x')); });
  EXPECT_NE(message.find("File name too long"), std::string::npos) << message;
}

}  // namespace
}  // namespace penstock
