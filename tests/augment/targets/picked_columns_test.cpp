// PickedColumns: the same bytes as one by one, for lines that are enlarged, reduced, mirrored and in any order.
#include "augment/targets/picked_columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/rng.h"

namespace penstock::detail {
namespace {

constexpr int kWidths[] = {1, 15, 16, 17, 33, 63, 64, 65, 200, 1000};

void expect_same_bytes(const std::vector<uint32_t>& from, const std::vector<uint8_t>& row) {
  std::vector<uint8_t> expected, picked(from.size());
  for (const uint32_t column : from) expected.push_back(row[column]);
  PickedColumns(from, row.size()).pick(row.data(), picked.data());
  EXPECT_EQ(picked, expected) << from.size() << " of " << row.size() << " columns";
}

TEST(PickedColumnsTest, ScaledAndMirroredLinesHaveTheBytesOfTheirColumns) {
  Rng rng(1, 0, 0, 0);
  for (const int width : kWidths) {
    std::vector<uint8_t> row(static_cast<size_t>(width));  // to the byte, so that AddressSanitizer sees what is read
    for (auto& value : row) value = static_cast<uint8_t>(rng.between(0, 255));
    for (const double scale : {0.3, 0.99, 1.0, 1.7, 2.9, 3.99, 4.3, 9.0}) {
      std::vector<uint32_t> from;
      for (double x = scale / 2; x < width; x += scale) from.push_back(static_cast<uint32_t>(x));
      expect_same_bytes(from, row);
      std::reverse(from.begin(), from.end());
      expect_same_bytes(from, row);
    }
  }
}

TEST(PickedColumnsTest, ColumnsMayComeInAnyOrder) {
  Rng rng(2, 0, 0, 0);
  for (const int width : kWidths) {
    std::vector<uint8_t> row(static_cast<size_t>(width));
    for (auto& value : row) value = static_cast<uint8_t>(rng.between(0, 255));
    std::vector<uint32_t> from(77);
    for (auto& column : from) column = static_cast<uint32_t>(rng.between(0, width - 1));
    expect_same_bytes(from, row);
  }
}

TEST(PickedColumnsTest, NoColumnsAreNoBytes) {
  uint8_t untouched = 7;
  PickedColumns({}, 100).pick(&untouched, &untouched);
  EXPECT_EQ(untouched, 7);
}

}  // namespace
}  // namespace penstock::detail
