// InstanceMasks: what was packed comes back, and bytes that are not to be trusted are refused.
#include "loader/files/instance_masks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/rng.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<InstanceMask> kMasks{{},
                                       {.polygons = {{{0, 0}, {4, 0}, {4, 2.5F}}, {{1, 1}, {2, 1}, {2, 3}, {1, 3}}}},
                                       {.runs = {0, 12}},
                                       {.runs = {3, 2, 7}}};

std::string refusal_of(FieldValue bytes) {
  return message_of(ErrorKind::kCorrupt, [&] {
    const InstanceMasks masks(bytes, 3, 4);
    for (size_t i = 0; i < masks.size(); ++i) masks.at(i);
  });
}

TEST(InstanceMasksTest, GiveWhatWasPacked) {
  const FieldValue bytes = pack_instances(kMasks);
  const InstanceMasks masks(bytes, 3, 4);
  ASSERT_EQ(masks.size(), kMasks.size());
  for (size_t i = 0; i < kMasks.size(); ++i) EXPECT_EQ(masks.at(i), kMasks[i]) << i;
}

TEST(InstanceMasksTest, TheExampleOfTheHeaderIsRight) {
  const std::vector<InstanceMask> right_column{{.runs = {2, 2}}};
  EXPECT_THAT(pack_instances(right_column), ElementsAre(1, 0, 0, 0, 3, 0, 0, 0, 2, 2, 2));
  EXPECT_THAT(pixels_of_runs(std::vector<uint32_t>{2, 2}, 2, 2), ElementsAre(0, 1, 0, 1));
}

TEST(InstanceMasksTest, RunsGoDownTheColumns) {
  EXPECT_THAT(pixels_of_runs(std::vector<uint32_t>{1, 3, 2}, 2, 3), ElementsAre(0, 1, 0, 1, 1, 0));
  EXPECT_THAT(pixels_of_runs(std::vector<uint32_t>{0, 6}, 2, 3), ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST(InstanceMasksTest, ReadsTheCompressedCountsOfCoco) {
  // Worked out by hand after rleToString(): a mask of 10 x 10 with rows 2 to 5 of columns 3 to 6. 32 is "P1"; from the
  // fourth run on there are differences of 0, and 34 - 6 = 28 is "l0".
  EXPECT_THAT(runs_of_coco("P14600000l0"), ElementsAre(32, 4, 6, 4, 6, 4, 6, 4, 34));
}

TEST(InstanceMasksTest, RefusesCompressedCountsThatAreNone) {
  for (const char* text : {"P", " ", "oooooooooo", "0\x7f", "00N"})
    EXPECT_NE(message_of(ErrorKind::kCorrupt, [&] { runs_of_coco(text); }), "") << text;
}

TEST(InstanceMasksTest, RefusesRunsThatDoNotAddUp) {
  const auto with = [](std::vector<uint32_t> runs) {
    const std::vector<InstanceMask> masks{{.runs = std::move(runs)}};
    return refusal_of(pack_instances(masks));
  };
  EXPECT_THAT(with({3, 2}), HasSubstr("mask 0: runs add up to 5; expected the 12 pixels of the picture"));
  EXPECT_THAT(with({3, 10}), HasSubstr("runs add up to 13 or more; expected the 12 pixels"));
  EXPECT_THAT(with({~0U, ~0U, ~0U}), HasSubstr("or more; expected the 12 pixels"));
  FieldValue cut{1, 0, 0, 0, 2, 0, 0, 0, 2, 0x80};
  EXPECT_THAT(refusal_of(cut), HasSubstr("run 0 does not end"));
  FieldValue long_run{1, 0, 0, 0, 8, 0, 0, 0, 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
  EXPECT_THAT(refusal_of(long_run), HasSubstr("run 0 does not end"));
}

TEST(InstanceMasksTest, RunsOfPixelsAreTheInverse) {
  for (const auto& runs : {std::vector<uint32_t>{12}, {0, 12}, {3, 2, 7}, {0, 1, 5, 6}})
    EXPECT_EQ(runs_of_pixels(pixels_of_runs(runs, 3, 4), 3, 4), runs);
}

TEST(InstanceMasksTest, PolygonsOfFewerThanThreePointsAreCounted) {
  const std::vector<InstanceMask> masks{{.polygons = {{{0, 0}, {1, 1}}, {}, {{0, 0}, {1, 1}, {1, 0}}}}};
  const FieldType type{.name = "m", .kind = FieldKind::kInstances, .of = "boxes"};
  const FieldValue bytes = pack_instances(masks);
  EXPECT_EQ(check_instances(type, bytes, 1, 3, 4), 2U);
  EXPECT_EQ(InstanceMasks(bytes, 3, 4).at(0), masks[0]);
}

TEST(InstanceMasksTest, RefusesPolygonsWithoutEnoughBytesOrFarAway) {
  const auto with = [](std::vector<Vertex> points) {
    const std::vector<InstanceMask> masks{{.polygons = {std::move(points)}}};
    return refusal_of(pack_instances(masks));
  };
  EXPECT_THAT(with({{0, 0}, {1, 1}, {1, std::numeric_limits<float>::quiet_NaN()}}), HasSubstr("a point is 1, nan"));
  EXPECT_THAT(with({{0, 0}, {1, 1}, {9, 1}}), HasSubstr("a point is 9, 1; expected one in a picture of 4 x 3"));
  FieldValue huge{1, 0, 0, 0, 5, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_THAT(refusal_of(huge), HasSubstr("a polygon of 4294967295 points in 0 bytes"));
}

TEST(InstanceMasksTest, RefusesTablesThatDoNotFit) {
  EXPECT_THAT(refusal_of({}), HasSubstr("0 masks in 0 bytes; expected 4"));
  EXPECT_THAT(refusal_of({0xFF, 0xFF, 0xFF, 0xFF}), HasSubstr("4294967295 masks in 4 bytes"));
  EXPECT_THAT(refusal_of({1, 0, 0, 0, 9, 0, 0, 0, 2}), HasSubstr("mask 0 ends at byte 9; expected 0 to 1"));
  EXPECT_THAT(refusal_of({1, 0, 0, 0, 0, 0, 0, 0, 2}), HasSubstr("the last mask ends at byte 0; expected 1"));
  EXPECT_THAT(refusal_of({1, 0, 0, 0, 1, 0, 0, 0, 7}), HasSubstr("begins with 7; expected 1 (polygons) or 2 (runs)"));
}

TEST(InstanceMasksTest, AnyBytesAreReadOrRefused) {
  Rng rng(3, 0, 0, 0);
  const FieldValue whole = pack_instances(kMasks);
  size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    FieldValue bytes = whole;
    const int changes = rng.between(1, 4);
    for (int k = 0; k < changes; ++k)
      bytes[static_cast<size_t>(rng.between(0, static_cast<int>(bytes.size()) - 1))] =
          static_cast<uint8_t>(rng.between(0, 255));
    bytes.resize(static_cast<size_t>(rng.between(0, static_cast<int>(whole.size()))));
    bytes.shrink_to_fit();  // so that AddressSanitizer sees a read after the end
    try {
      const InstanceMasks masks(bytes, 3, 4);
      for (size_t m = 0; m < masks.size(); ++m) masks.at(m);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCorrupt);
      ++refused;
    }
  }
  EXPECT_GT(refused, 15'000U);
}

TEST(CheckInstancesTest, NamesTheFieldAndCountsTheBoxes) {
  const FieldType type{.name = "shapes", .kind = FieldKind::kInstances, .of = "boxes"};
  const FieldValue bytes = pack_instances(kMasks);
  check_instances(type, bytes, 4, 3, 4);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { check_instances(type, bytes, 3, 3, 4); }),
              HasSubstr("field \"shapes\": 4 masks; expected 3, one for each of \"boxes\""));
}

}  // namespace
}  // namespace penstock
