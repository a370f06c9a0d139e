// Kept checkpoints: which files are kept, and that a run goes on from the last whole one.
#include "train/checkpoint/kept_checkpoints.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/error.h"
#include "tests/support/testing.h"
#include "tests/train/saved_state.h"
#include "train/checkpoint/last_checkpoint.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty, testing::UnorderedElementsAre;

class KeptCheckpointsTest : public testing::Test {
 protected:
  void save_at(const fs::path& path, int64_t step, int64_t epoch = 0) const {
    CheckpointInfo info;
    info.arch = "lenet";
    info.shape = {1, 28, 28, 10};
    info.position.step = step, info.position.epoch = epoch;
    save_checkpoint(path, info, {{"model.weight", torch::full({100}, static_cast<double>(step))}});
  }
  void save(int64_t step, int64_t keep) const {
    save_at(path_of_checkpoint(out(), step, keep), step);
    keep_checkpoints(out(), step, keep);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(out())) found.push_back(entry.path().filename().string());
    return found;
  }
  fs::path last() const { return out() / "checkpoint-last.safetensors"; }
  fs::path out() const { return folder_.path(); }
  static void cut(const fs::path& path, uintmax_t by) { fs::resize_file(path, fs::file_size(path) - by); }
  static void damage(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-8, std::ios::end);
    file.put('\x7f');
  }

  std::optional<int64_t> found_step() {
    lines_.clear();
    const auto found = last_whole_checkpoint(out(), [&](const std::string& line) { lines_.push_back(line); });
    if (!found) return std::nullopt;
    EXPECT_EQ(found->checkpoint.state.at("model.weight")[99].item<int64_t>(), found->checkpoint.info.position.step);
    return found->checkpoint.info.position.step;
  }
  std::vector<std::string> lines_;

 private:
  TemporaryFolder folder_{"kept_checkpoints"};
};

TEST_F(KeptCheckpointsTest, OneIsTheLastAlone) {
  for (const int step : {10, 20, 30}) save(step, 1);
  EXPECT_THAT(names(), ElementsAre("checkpoint-last.safetensors"));
  EXPECT_EQ(found_step(), 30);
}

TEST_F(KeptCheckpointsTest, SeveralAreTheLastOnesAndOneMoreNameOfTheLast) {
  for (const int step : {9, 90, 100, 1000}) save(step, 3);
  EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-last.safetensors", "checkpoint-step-90.safetensors",
                                            "checkpoint-step-100.safetensors", "checkpoint-step-1000.safetensors"));
  EXPECT_TRUE(fs::equivalent(last(), out() / "checkpoint-step-1000.safetensors"));
  save(1010, 1);
  EXPECT_THAT(names(), ElementsAre("checkpoint-last.safetensors"));
}

TEST_F(KeptCheckpointsTest, AFutureThatTheRunHasLeftGoes) {
  for (const int step : {10, 20, 30}) save(step, 3);
  save(15, 3);  // after --resume checkpoint-step-10.safetensors
  EXPECT_THAT(names(), UnorderedElementsAre("checkpoint-last.safetensors", "checkpoint-step-10.safetensors",
                                            "checkpoint-step-15.safetensors"));
  EXPECT_EQ(found_step(), 15);
}

TEST_F(KeptCheckpointsTest, TheOneAfterTheEvaluationIsFurther) {
  const auto best = out() / "checkpoint-best.safetensors";
  save_at(best, 10, 1);
  save_at(last(), 10, 0);
  EXPECT_EQ(last_whole_checkpoint(out(), [](const auto&) {})->path, best);
  save_at(last(), 10, 1);
  EXPECT_EQ(last_whole_checkpoint(out(), [](const auto&) {})->path, last());
}

TEST_F(KeptCheckpointsTest, NothingIsFoundWhereNothingIs) {
  EXPECT_EQ(found_step(), std::nullopt);
  std::ofstream(out() / "checkpoint-last.safetensors.tmp") << "begun";
  EXPECT_EQ(found_step(), std::nullopt);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("checkpoint-last.safetensors.tmp: its writing was cut short")));
  EXPECT_EQ(last_whole_checkpoint(out() / "nowhere", [](const auto&) {}), std::nullopt);
}

TEST_F(KeptCheckpointsTest, FilesThatAreNotWholeArePassedOverWithOneLineEach) {
  for (const int step : {10, 20, 30}) save(step, 3);
  cut(last(), 100);  // a file with two names
  EXPECT_EQ(found_step(), 20);
  EXPECT_THAT(lines_, ElementsAre(testing::StartsWith("--resume auto passes over " + out().string())));
  damage(out() / "checkpoint-step-20.safetensors");  // its header is whole, the tensor is not
  EXPECT_EQ(found_step(), 10);
  EXPECT_EQ(lines_.size(), 2U);
}

TEST_F(KeptCheckpointsTest, TheBestOneCountsToo) {
  save(10, 1);
  save_at(out() / "checkpoint-best.safetensors", 5);
  EXPECT_EQ(found_step(), 10);
  cut(last(), 1);
  EXPECT_EQ(found_step(), 5);
  save_at(out() / "checkpoint-best.safetensors", 20);  // saved before the last one, whose writing was cut short
  EXPECT_EQ(found_step(), 20);
}

TEST_F(KeptCheckpointsTest, ARunDoesNotStartAnewOverCheckpointsThatItCannotRead) {
  save(10, 1);
  cut(last(), 1);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { found_step(); }), HasSubstr("none of its checkpoints is whole"));
}

}  // namespace
}  // namespace penstock
