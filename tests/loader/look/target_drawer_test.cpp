// Sheets of a data set with boxes, masks and key points: what is drawn, where, and where nothing is.
#include <gtest/gtest.h>

#include <set>

#include "loader/look/sheet.h"
#include "loader/pack/pack.h"
#include "tests/loader/columns/object_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing_data::ObjectSource;

using Rgb = std::array<uint8_t, 3>;

class TargetDrawerTest : public testing::Test {
 protected:
  TargetDrawerTest() {
    pack(ObjectSource(12), "memory", {.output = folder_.path(), .shard_count = 1, .jobs = 1});
    dataset_ = Dataset::open(folder_.path());
  }

  Sheet sheet(const std::string& augment, const SheetOptions& options) const {
    return make_sheet(dataset_, Pipeline(augment, dataset_->manifest().statistics), options);
  }

  static Rgb pixel(const Sheet& sheet, int cell_x, int cell_y, int x, int y) {
    const size_t column = static_cast<size_t>(cell_x * (ObjectSource::kWidth + 2) + x);
    const size_t row = static_cast<size_t>(cell_y * (ObjectSource::kHeight + 2) + y);
    const uint8_t* at = &sheet.pixels[(row * static_cast<size_t>(sheet.extent.width) + column) * 3];
    return {at[0], at[1], at[2]};
  }

  const testing_data::TemporaryFolder folder_;
  std::shared_ptr<const Dataset> dataset_;
};

TEST_F(TargetDrawerTest, BoxesAreOutlinesOfTheirNumbersColour) {
  const Sheet made = sheet("", {.rows = 3, .columns = 4, .shuffle = Shuffle::kNone});
  ASSERT_EQ(made.extent.channels, 3);
  ASSERT_EQ(made.ids.size(), 12U);
  constexpr std::array<Rgb, 3> kColors{{{230, 25, 75}, {60, 180, 75}, {255, 225, 25}}};
  size_t outlined = 0;
  for (int cell = 0; cell < 12; ++cell) {
    const auto id = made.ids[static_cast<size_t>(cell)];
    const auto boxes = ObjectSource::boxes_of(id);
    // The last outline lies above the others; the dots, which are at corners, lie above all outlines.
    if (boxes.empty()) continue;
    const auto is_dot = [&](int x, int y) {
      return std::any_of(boxes.begin(), boxes.end(), [&](const Box& other) {
        const auto is_near = [](int at, float a, float b) { return std::abs(at - a) <= 1 || std::abs(at - b) <= 1; };
        return is_near(x, other.x0, other.x1) && is_near(y, other.y0, other.y1);
      });
    };
    const Box& box = boxes.back();
    const Rgb& color = kColors[boxes.size() - 1];
    for (int x = static_cast<int>(box.x0); x < static_cast<int>(box.x1); ++x)
      for (const int y : {static_cast<int>(box.y0), static_cast<int>(box.y1) - 1}) {
        if (is_dot(x, y)) continue;
        EXPECT_EQ(pixel(made, cell % 4, cell / 4, x, y), color) << "id " << id << " at " << x << ", " << y;
        ++outlined;
      }
    for (const auto& [x0, y0, x1, y1] : boxes)
      EXPECT_NE(pixel(made, cell % 4, cell / 4, static_cast<int>(x0), static_cast<int>(y0)), (Rgb{255, 255, 255}));
  }
  EXPECT_GT(outlined, 30U);
}

TEST_F(TargetDrawerTest, MasksAreMixedWithThePicture) {
  const Sheet made = sheet("", {.rows = 1, .columns = 1, .shuffle = Shuffle::kNone});
  ASSERT_EQ(made.ids, (std::vector<uint64_t>{0}));  // it has no boxes
  const auto levels = ObjectSource::levels_of(0);
  std::set<Rgb> colors;
  for (size_t i = 0; i < levels.size(); ++i) {
    const Rgb at =
        pixel(made, 0, 0, static_cast<int>(i % ObjectSource::kWidth), static_cast<int>(i / ObjectSource::kWidth));
    for (const uint8_t level : at) EXPECT_NEAR(level, levels[i] / 2.0, 128.5);
    EXPECT_FALSE(at[0] == at[1] && at[1] == at[2]) << i;  // no grey is left
    colors.insert(at);
  }
  EXPECT_GT(colors.size(), 5U);
}

TEST_F(TargetDrawerTest, OneSampleInManyEpochsAndMixedRowsStillMakeSheets) {
  const Sheet many = sheet("flip,letterbox(size=36)", {.rows = 2, .columns = 3, .sample = 7});
  EXPECT_EQ(many.ids, std::vector<uint64_t>(6, 7));
  EXPECT_EQ(many.extent.channels, 3);
  const Sheet mixed = sheet("mixup", {.rows = 2, .columns = 3});
  EXPECT_EQ(mixed.extent.channels, 1);  // nothing is drawn
  EXPECT_EQ(mixed.ids.size(), 6U);
}

}  // namespace
}  // namespace penstock
