// Masks in PNGs: their numbers, of every kind of PNG that has some, and the same by the fast way.
#include "loader/codecs/mask_png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "core/rng.h"
#include "loader/codecs/mask_rows.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using MaskBytes = std::vector<uint8_t>;

void add_number(MaskBytes& to, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<uint8_t>(number >> shift));
}

void add_chunk(MaskBytes& png, const std::string& name, const MaskBytes& data) {
  add_number(png, static_cast<uint32_t>(data.size()));
  MaskBytes chunk(name.begin(), name.end());
  chunk.insert(chunk.end(), data.begin(), data.end());
  png.insert(png.end(), chunk.begin(), chunk.end());
  add_number(png, static_cast<uint32_t>(crc32(0, chunk.data(), static_cast<unsigned>(chunk.size()))));
}

struct PngKind {
  uint8_t depth = 8, color = 0;  // as in IHDR
  size_t idat_bytes = 1 << 20;   // per chunk
};

/// A PNG of these lines, each of which begins with its filter.
MaskBytes png_of(int height, int width, const PngKind& kind, const MaskBytes& lines) {
  MaskBytes png{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, header;
  add_number(header, static_cast<uint32_t>(width));
  add_number(header, static_cast<uint32_t>(height));
  header.insert(header.end(), {kind.depth, kind.color, 0, 0, 0});
  add_chunk(png, "IHDR", header);
  if (kind.color == 3) add_chunk(png, "PLTE", MaskBytes(size_t{3} << kind.depth, 77));
  uLongf size = compressBound(lines.size());
  MaskBytes packed(size);
  compress(packed.data(), &size, lines.data(), lines.size());
  for (size_t at = 0; at < size; at += kind.idat_bytes) {
    const auto begin = packed.begin() + static_cast<ptrdiff_t>(at);
    add_chunk(png, "IDAT",
              MaskBytes(begin, begin + static_cast<ptrdiff_t>(std::min<size_t>(kind.idat_bytes, size - at))));
  }
  add_chunk(png, "IEND", {});
  return png;
}

/// `mask` as the lines of a PNG of 8 bits, each with a filter that is drawn.
MaskBytes filtered(const MaskBytes& mask, size_t width, Rng& rng) {
  MaskBytes lines;
  for (size_t row = 0; row < mask.size() / width; ++row) {
    const int filter = rng.between(0, 4);
    lines.push_back(static_cast<uint8_t>(filter));
    for (size_t i = 0; i < width; ++i) {
      const auto at = [&](bool is_left, bool is_up) {
        if ((is_left && i == 0) || (is_up && row == 0)) return 0;
        return static_cast<int>(mask[(row - is_up) * width + i - is_left]);
      };
      const int left = at(true, false), up = at(false, true), both = at(true, true), guess = left + up - both;
      const int a = std::abs(guess - left), b = std::abs(guess - up), c = std::abs(guess - both);
      const int paeth = a <= b && a <= c ? left : b <= c ? up : both;
      const std::array<int, 5> predicted{0, left, up, (left + up) / 2, paeth};
      lines.push_back(static_cast<uint8_t>(mask[row * width + i] - predicted[static_cast<size_t>(filter)]));
    }
  }
  return lines;
}

/// Rectangles on a ground of 0, as masks have them; or noise.
MaskBytes random_mask(int height, int width, Rng& rng) {
  MaskBytes mask(static_cast<size_t>(height) * static_cast<size_t>(width));
  if (rng.chance(0.2)) {
    for (auto& value : mask) value = static_cast<uint8_t>(rng.between(0, 255));
    return mask;
  }
  for (int i = rng.between(0, 6); i > 0; --i) {
    const int top = rng.between(0, height - 1), left = rng.between(0, width - 1);
    const int bottom = rng.between(top, height - 1), right = rng.between(left, width - 1), value = rng.between(0, 255);
    for (int y = top; y <= bottom; ++y)
      for (int x = left; x <= right; ++x) mask[static_cast<size_t>(y * width + x)] = static_cast<uint8_t>(value);
  }
  return mask;
}

TEST(MaskPngTest, TheFastWayGivesTheSameRowsUnderEveryFilter) {
  Rng rng(21, 0, 0, 0);
  MaskRows rows;
  for (int i = 0; i < 3000; ++i) {
    const int height = rng.between(1, 40), width = rng.between(1, 140);
    const MaskBytes mask = random_mask(height, width, rng);
    const PngKind kind{.color = static_cast<uint8_t>(rng.chance(0.5) ? 3 : 0),
                       .idat_bytes = rng.chance(0.3) ? static_cast<size_t>(rng.between(1, 20)) : size_t{1} << 20};
    const MaskBytes png = png_of(height, width, kind, filtered(mask, static_cast<size_t>(width), rng));
    ASSERT_EQ(decode_mask(png, height, width).bytes, mask);
    const Region needed{0, 0, rng.between(0, width), rng.between(0, height)};
    const auto fast = rows.decode(png, height, width, needed);
    ASSERT_EQ(fast.bytes.size(), mask.size());
    for (int y = 0; y < needed.height; ++y)
      ASSERT_TRUE(
          std::equal(mask.begin() + y * width, mask.begin() + y * width + needed.width, fast.bytes.begin() + y * width))
          << "mask " << i << ", row " << y;
  }
}

TEST(MaskPngTest, ValuesAreNumbersAndNeverColours) {
  MaskRows rows;
  const auto decode = [&](int width, const PngKind& kind, const MaskBytes& lines) {
    const MaskBytes png = png_of(1, width, kind, lines);
    const MaskPixels mask = decode_mask(png, 1, width);
    const MaskView fast = rows.decode(png, 1, width, {0, 0, width, 1});
    EXPECT_THAT(fast.bytes, ElementsAreArray(mask.bytes));
    EXPECT_THAT(fast.words, ElementsAreArray(mask.words));
    EXPECT_THAT(fast.longs, ElementsAreArray(mask.longs));
    return mask;
  };
  EXPECT_EQ(decode(5, {.depth = 1}, {0, 0b10110000}).bytes, (MaskBytes{1, 0, 1, 1, 0}));
  EXPECT_EQ(decode(3, {.depth = 2, .color = 3}, {0, 0b11011000}).bytes, (MaskBytes{3, 1, 2}));
  EXPECT_EQ(decode(3, {.depth = 4}, {0, 0xF1, 0x70}).bytes, (MaskBytes{15, 1, 7}));
  EXPECT_EQ(decode(3, {.color = 3}, {0, 9, 255, 0}).bytes, (MaskBytes{9, 255, 0}));
  EXPECT_EQ(decode(2, {.depth = 16}, {0, 1, 2, 255, 254}).words, (std::vector<uint16_t>{0x0102, 0xFFFE}));
  EXPECT_EQ(decode(2, {.color = 2}, {0, 1, 2, 3, 255, 0, 1}).longs,
            (std::vector<int32_t>{1 + 2 * 256 + 3 * 65536, 255 + 65536}));
}

TEST(MaskPngTest, RefusesWhatIsNoMaskOfThePicture) {
  Rng rng(4, 0, 0, 0);
  const MaskBytes mask = random_mask(9, 11, rng), png = png_of(9, 11, {}, filtered(mask, 11, rng));
  MaskRows rows;
  const auto refusals = [&](const MaskBytes& bytes, int height, int width) {
    const auto slow = message_of(ErrorKind::kCorrupt, [&] { decode_mask(bytes, height, width); });
    return slow + " | " + message_of(ErrorKind::kCorrupt, [&] {
             rows.decode(bytes, height, width, {0, 0, width, height});
           });
  };
  EXPECT_THAT(refusals(png, 11, 9), HasSubstr("a mask of 9 x 11; expected 11 x 9, as the picture has"));
  EXPECT_THAT(refusals(png_of(1, 1, {.color = 4}, {0, 1, 1}), 1, 1),
              HasSubstr("a mask of PNG colour type 4 with 8 bits"));
  EXPECT_THAT(refusals(png_of(1, 1, {.color = 0}, {5, 1}), 1, 1), HasSubstr("filter 5; expected 0 to 4"));
  for (size_t size = 0; size + 20 < png.size(); ++size)
    refusals(MaskBytes(png.begin(), png.begin() + static_cast<ptrdiff_t>(size)), 9, 11);
}

TEST(MaskPngTest, AnyBytesAreDecodedOrRefused) {
  Rng rng(5, 0, 0, 0);
  MaskRows rows;
  for (int i = 0; i < 5000; ++i) {
    MaskBytes png = png_of(9, 11, {}, filtered(random_mask(9, 11, rng), 11, rng));
    for (int k = rng.between(1, 4); k > 0; --k)
      png[static_cast<size_t>(rng.between(8, static_cast<int>(png.size()) - 1))] =
          static_cast<uint8_t>(rng.between(0, 255));
    try {
      rows.decode(png, 9, 11, {0, 0, 11, 9});
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCorrupt);
    }
  }
}

}  // namespace
}  // namespace penstock
