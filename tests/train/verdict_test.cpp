// Verdict: which earlier run's prediction counts, and how its error reads.
#include "train/run/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

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
    return find_past_prediction(folder_.path() / "now", kConfiguration, workers,
                                [&](const std::string& line) { lines_.push_back(line); });
  }

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
  write_summary("now", 1, kConfiguration, 0);  // of this run's own folder, to be replaced
  const auto past = find(2);
  ASSERT_TRUE(past);
  EXPECT_EQ(past->summary, folder_.path() / "newer" / "summary.json");
  EXPECT_EQ(past->workers, 1);
  EXPECT_EQ(past->images_per_second, 2000);
  EXPECT_THAT(lines_, testing::IsEmpty());
  EXPECT_FALSE(find(9));  // nobody predicted so many
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

TEST_F(PastPredictionTest, TheErrorIsOfWhatWasMeasured) {
  const PastPrediction past{"runs/a/summary.json", 1, 14'300};
  EXPECT_EQ(comparison_text(past, {.workers = 2, .images_per_second = 13'900}),
            "prediction: a (1 worker) said 14,300 images/s for 2 workers; it was 13,900 images/s: 2.9 % too much");
  EXPECT_EQ(comparison_text(past, {.workers = 2, .images_per_second = 15'000, .is_emulated = true}),
            "prediction: a (1 worker) said 14,300 images/s for 2 workers; it was 15,000 images/s: 4.7 % too little "
            "[emulated]");
}

}  // namespace
}  // namespace penstock
