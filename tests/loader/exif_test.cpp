// exif_orientation(): both byte orders, both types, and values that make no sense.
#include "loader/detail/exif.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::detail {
namespace {

constexpr int kShort = 3, kLong = 4;

/// A TIFF structure whose only entry is the orientation.
std::vector<uint8_t> tiff(bool is_little, int type, uint32_t value) {
  std::vector<uint8_t> bytes(2, is_little ? 'I' : 'M');
  const auto append = [&](uint32_t number, int byte_count) {
    for (int i = 0; i < byte_count; ++i)
      bytes.push_back(static_cast<uint8_t>(number >> 8 * (is_little ? i : byte_count - 1 - i)));
  };
  append(42, 2), append(8, 4), append(1, 2);
  append(0x0112, 2), append(static_cast<uint32_t>(type), 2), append(1, 4);
  append(value, type == kLong ? 4 : 2), append(0, type == kLong ? 0 : 2);
  return bytes;
}

TEST(ExifTest, OrientationIsReadInBothByteOrdersAndTypes) {
  for (const bool is_little : {true, false})
    for (const int type : {kShort, kLong})
      for (uint32_t value = 1; value <= 8; ++value) EXPECT_EQ(exif_orientation(tiff(is_little, type, value)), value);
}

TEST(ExifTest, WhatMakesNoSenseIsUpright) {
  for (const uint32_t value : {0u, 9u, 0x10006u}) EXPECT_EQ(exif_orientation(tiff(true, kLong, value)), 1);
  EXPECT_EQ(exif_orientation(tiff(true, /*BYTE*/ 1, 6)), 1);
  const auto whole = tiff(false, kShort, 6);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(exif_orientation(std::span(whole).first(size)), 1) << size;
}

}  // namespace
}  // namespace penstock::detail
