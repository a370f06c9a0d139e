// Compares masks with PIL's nearest transform, and boxes and key points with torchvision: tests/golden/targets.json,
// which make_targets.py writes.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "augment/targets/boxes.h"
#include "augment/targets/keypoints.h"
#include "augment/targets/masks.h"
#include "augment/transform.h"

namespace penstock {
namespace {

using nlohmann::json;

const json& golden() {
  static const json parsed = json::parse(std::ifstream(PENSTOCK_ROOT "/tests/golden/targets.json"));
  return parsed;
}

/// Knuth's MMIX generator; the upper bits. make_targets.py has the same.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  int between(int low, int high) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return low + static_cast<int>((state_ >> 33) % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

struct MaskCase {
  std::vector<uint8_t> mask;
  Plan plan;
};

MaskCase next_case(Numbers& numbers) {
  const int height = numbers.between(1, 40), width = numbers.between(1, 40);
  MaskCase one{std::vector<uint8_t>(static_cast<size_t>(height * width)), Plan::identity(height, width)};
  for (auto& value : one.mask) value = static_cast<uint8_t>(numbers.between(0, 254));
  const int new_height = numbers.between(1, 40), new_width = numbers.between(1, 40);
  std::array<double, 6> map{};
  for (size_t i = 0; i < 4; ++i) map[i] = numbers.between(-512, 512) / 256.0;
  for (size_t i = 4; i < 6; ++i) map[i] = numbers.between(-2560, 12800) / 256.0;
  if (numbers.between(0, 2) == 0) map[1] = map[2] = 0;
  one.plan.resample({map[0], map[1], map[4], map[2], map[3], map[5]}, new_height, new_width);
  return one;
}

template <class Value>
uint32_t crc32(const std::vector<Value>& values) {  // of the values as bytes, as zlib's
  uint32_t crc = ~0U;
  for (const Value value : values) {
    crc ^= static_cast<uint8_t>(value);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320U & (0U - (crc & 1)));
  }
  return ~crc;
}

template <class Value>
std::vector<Value> moved(const MaskCase& one) {
  const std::vector<Value> mask(one.mask.begin(), one.mask.end());
  std::vector<Value> output(static_cast<size_t>(one.plan.output_height) * static_cast<size_t>(one.plan.output_width));
  move_mask<Value>(mask, one.plan, Value{255}, MaskBorder::kCopied, output);
  return output;
}

TEST(GoldenTargetsTest, TenThousandMasksAreThoseOfPil) {
  const std::string sums = golden()["masks"];
  ASSERT_EQ(sums.size(), 80'000U);
  Numbers numbers(31);
  for (size_t i = 0; i < 10'000; ++i) {
    const MaskCase one = next_case(numbers);
    const auto expected = static_cast<uint32_t>(std::stoul(sums.substr(8 * i, 8), nullptr, 16));
    const auto bytes = moved<uint8_t>(one);
    ASSERT_EQ(crc32(bytes), expected) << "plan " << i;
    if (i % 10 != 0) continue;
    ASSERT_EQ(crc32(moved<uint16_t>(one)), expected) << "plan " << i << ", u16";
    ASSERT_EQ(crc32(moved<int32_t>(one)), expected) << "plan " << i << ", i32";
  }
}

TEST(GoldenTargetsTest, BoxesOfSingleEditsAreThoseOfTorchvision) {
  const auto given = golden()["boxes"].get<std::vector<std::array<float, 4>>>();
  std::vector<Box> boxes;
  for (const auto& [x0, y0, x1, y1] : given) boxes.push_back({x0, y0, x1, y1});
  for (const auto& one : golden()["cases"]) {
    const std::string spec = one["spec"];
    const Plan plan = Pipeline(spec, {}).plan(golden()["height"], golden()["width"], 0, 0, 0);
    EXPECT_EQ((std::vector{plan.output_height, plan.output_width}), one["size"].get<std::vector<int>>()) << spec;
    const auto made = move_boxes(boxes, plan);
    size_t at = 0;
    for (size_t i = 0; i < boxes.size(); ++i) {
      const auto want = one["boxes"][i].get<std::array<float, 4>>();
      if (want[0] >= want[2] || want[1] >= want[3]) continue;  // ours are gone
      ASSERT_LT(at, made.size()) << spec;
      EXPECT_EQ(made[at].index, static_cast<int64_t>(i)) << spec;
      const Box& box = made[at++].box;
      EXPECT_NEAR(box.x0, want[0], 1e-4) << spec << ", box " << i;
      EXPECT_NEAR(box.y0, want[1], 1e-4) << spec << ", box " << i;
      EXPECT_NEAR(box.x1, want[2], 1e-4) << spec << ", box " << i;
      EXPECT_NEAR(box.y1, want[3], 1e-4) << spec << ", box " << i;
    }
    EXPECT_EQ(at, made.size()) << spec;
  }
}

TEST(GoldenTargetsTest, KeyPointsOfSingleEditsAreThoseOfTorchvision) {
  size_t compared = 0;
  for (const auto& one : golden()["cases"]) {
    if (one["points"].empty()) continue;
    const std::string spec = one["spec"];
    const Plan plan = Pipeline(spec, {}).plan(golden()["height"], golden()["width"], 0, 0, 0);
    for (size_t entry = 0; entry < 2; ++entry)
      for (size_t k = 0; k < 2; ++k) {
        const auto given = golden()["points"][entry][k].get<std::array<float, 2>>();
        const auto want = one["points"][entry][k].get<std::array<float, 2>>();
        std::vector<KeyPoint> points{{given[0], given[1], 2}};
        move_keypoints(points, 1, plan, {});
        EXPECT_NEAR(points[0].x, want[0], 1e-4) << spec;
        EXPECT_NEAR(points[0].y, want[1], 1e-4) << spec;
        const bool is_inside = want[0] >= -1e-4 && want[1] >= -1e-4 && want[0] <= 1e-4 + plan.output_width &&
                               want[1] <= 1e-4 + plan.output_height;
        EXPECT_EQ(points[0].v, is_inside ? 2 : 0) << spec;
        ++compared;
      }
  }
  EXPECT_GT(compared, 30U);
}

}  // namespace
}  // namespace penstock
