// stored_orientation(): EXIF in both byte orders and types, XMP, which of them counts, where PNGs have them, and values
// that make no sense. What counts was compared with Pillow 13's getexif().
#include "loader/files/orientation.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "loader/codecs/codec.h"
#include "tests/loader/storage_test_data.h"

namespace penstock::detail {
namespace {

using testing_data::Bytes;

constexpr int kByte = 1, kShort = 3, kLong = 4, kSignedByte = 6, kSignedShort = 8, kSignedLong = 9;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

void append_big(Bytes& bytes, uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<uint8_t>(number >> shift));
}

/// A TIFF structure with one entry, which is the orientation unless it has another tag.
Bytes tiff(bool is_little, int type, uint32_t value, uint32_t count = 1, uint32_t tag = 0x0112) {
  Bytes bytes(2, is_little ? 'I' : 'M');
  const auto append = [&](uint32_t number, int byte_count) {
    for (int i = 0; i < byte_count; ++i)
      bytes.push_back(static_cast<uint8_t>(number >> 8 * (is_little ? i : byte_count - 1 - i)));
  };
  append(42, 2), append(8, 4), append(1, 2);
  append(tag, 2), append(static_cast<uint32_t>(type), 2), append(count, 4);
  const int value_bytes = type == kLong || type == kSignedLong ? 4 : type == kSignedByte ? 1 : 2;
  append(value, value_bytes), append(0, 4 - value_bytes);
  return bytes;
}

Bytes xmp(std::string_view property) {
  return bytes_of("<x:xmpmeta><rdf:Description " + std::string(property) + "</x:xmpmeta>");
}
const Bytes kXmp6 = xmp("tiff:Orientation=\"6\"/>"), kXmp3 = xmp("><tiff:Orientation>3</tiff:Orientation>");

TEST(OrientationTest, ExifIsReadInBothByteOrdersAndTypes) {
  for (const bool is_little : {true, false})
    for (const int type : {kShort, kLong, kSignedByte, kSignedShort, kSignedLong})
      for (uint32_t value = 1; value <= 8; ++value) EXPECT_EQ(exif_orientation(tiff(is_little, type, value)), value);
}

TEST(OrientationTest, ExifThatMakesNoSenseIsUpright) {
  for (const uint32_t value : {0u, 9u, 0x10006u}) EXPECT_EQ(exif_orientation(tiff(true, kLong, value)), 1);
  EXPECT_EQ(exif_orientation(tiff(true, kByte, 6)), 1);
  for (const uint32_t count : {0u, 2u, 3u, 0xFFFFFFFFu})
    EXPECT_EQ(exif_orientation(tiff(true, kShort, 6, count)), std::nullopt);
  const auto whole = tiff(false, kShort, 6);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(exif_orientation(std::span(whole).first(size)), std::nullopt) << size;
}

TEST(OrientationTest, XmpHasItAsAttributeOrElement) {
  EXPECT_EQ(xmp_orientation(kXmp6), 6);
  EXPECT_EQ(xmp_orientation(kXmp3), 3);
  EXPECT_EQ(xmp_orientation(xmp("tiff:Orientation='6' tiff:Orientation= tiff:Orientation=\"8\"")), 8);
  EXPECT_EQ(xmp_orientation(xmp("tiff:Orientation=\"0\"")), 1);
  EXPECT_EQ(xmp_orientation(xmp("tiff:Orientation=\"9\"")), 1);
  EXPECT_EQ(xmp_orientation(xmp("tiff:Make=\"6\"")), std::nullopt);
  const Bytes whole = bytes_of("tiff:Orientation=\"6");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(xmp_orientation(std::span(whole).first(size)), std::nullopt);
}

TEST(OrientationTest, XmpCountsWhereExifDoesNotMentionTheOrientation) {
  EXPECT_EQ(stored_orientation({}, kXmp6), 6);
  EXPECT_EQ(stored_orientation(tiff(true, kShort, 8), kXmp6), 8);
  EXPECT_EQ(stored_orientation(tiff(true, kShort, 6, 1, 0x0110), kXmp6), 6);
  EXPECT_EQ(stored_orientation(tiff(true, kShort, 9), kXmp6), 1);
  EXPECT_EQ(stored_orientation(tiff(true, kShort, 8, 2), kXmp6), 6);
  EXPECT_EQ(stored_orientation(bytes_of("no TIFF structure"), kXmp6), 6);
  EXPECT_EQ(stored_orientation({}, {}), 1);
}

/// `jpeg` with an APP1 segment of this content.
Bytes with_app1(const Bytes& jpeg, std::string_view name, const Bytes& content) {
  const size_t length = 2 + name.size() + content.size();
  Bytes file{0xFF, 0xD8, 0xFF, 0xE1, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length)};
  file.insert(file.end(), name.begin(), name.end());
  file.insert(file.end(), content.begin(), content.end());
  file.insert(file.end(), jpeg.begin() + 2, jpeg.end());
  return file;
}

TEST(OrientationTest, JpegsHaveThemInApp1) {
  constexpr std::string_view kExifName("Exif\0\0", 6), kXmpName("http://ns.adobe.com/xap/1.0/\0", 29);
  const auto& codec = codec_for(Encoding::kJpeg);
  const Bytes plain = testing_data::golden_picture("jpeg 420").file;
  const Bytes turned = with_app1(plain, kXmpName, kXmp6);
  EXPECT_EQ(codec.orientation(turned), 6);
  EXPECT_EQ(codec.orientation(with_app1(turned, kXmpName, kXmp3)), 6);  // the last one counts
  EXPECT_EQ(codec.orientation(with_app1(turned, kExifName, tiff(true, kShort, 8))), 8);
  EXPECT_EQ(codec.orientation(with_app1(turned, kExifName, tiff(true, kShort, 8, 1, 0x0110))), 6);
  EXPECT_EQ(codec.orientation(with_app1(plain, "http://ns.adobe.com/xmp/extension/", kXmp6)), 1);
}

Bytes chunk(std::string_view type, const Bytes& data) {
  Bytes checked = bytes_of(type), whole;
  checked.insert(checked.end(), data.begin(), data.end());
  append_big(whole, static_cast<uint32_t>(data.size()));
  whole.insert(whole.end(), checked.begin(), checked.end());
  append_big(whole, static_cast<uint32_t>(crc32_z(0, checked.data(), checked.size())));
  return whole;
}

Bytes joined(std::string_view head, const Bytes& rest) {
  Bytes all = bytes_of(head);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

Bytes packed(const Bytes& text) {
  uLongf byte_count = compressBound(text.size());
  Bytes bytes(byte_count);
  EXPECT_EQ(compress(bytes.data(), &byte_count, text.data(), text.size()), Z_OK);
  bytes.resize(byte_count);
  return bytes;
}

/// ImageMagick's form of an EXIF block.
Bytes raw_profile(const Bytes& exif) {
  std::string text = "\nexif\n      " + std::to_string(exif.size()) + "\n";
  for (const uint8_t byte : exif) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
    if (text.size() % 36 == 0) text += '\n';
  }
  return bytes_of(text + "\n");
}

using namespace std::string_view_literals;

/// A small PNG with these chunks before its pixels and those after them.
Bytes png_with(const std::vector<Bytes>& before, const std::vector<Bytes>& after) {
  const auto& golden = testing_data::golden_picture("png rgb");
  constexpr size_t kHeaderEnd = 33, kEndBytes = 12;  // IHDR and IEND
  Bytes file(golden.file.begin(), golden.file.begin() + kHeaderEnd);
  for (const auto& part : before) file.insert(file.end(), part.begin(), part.end());
  file.insert(file.end(), golden.file.begin() + kHeaderEnd, golden.file.end() - kEndBytes);
  for (const auto& part : after) file.insert(file.end(), part.begin(), part.end());
  file.insert(file.end(), golden.file.end() - kEndBytes, golden.file.end());
  return file;
}

/// The orientation of such a PNG, which must decode as well.
int png_orientation(const std::vector<Bytes>& before, const std::vector<Bytes>& after = {}) {
  const auto& codec = codec_for(Encoding::kPng);
  const Bytes file = png_with(before, after);
  DecodeScratch scratch;
  codec.decode({.extent = codec.probe(file), .encoding = Encoding::kPng, .bytes = file}, {.region = {0, 0, 1, 1}},
               scratch);
  return codec.orientation(file);
}

TEST(OrientationTest, PngsHaveExifInAChunkOrInTexts) {
  const Bytes exif = tiff(true, kShort, 8), profile = raw_profile(joined("Exif\0\0"sv, tiff(false, kShort, 5)));
  const Bytes in_chunk = chunk("eXIf", exif), in_text = chunk("tEXt", joined("exif\0"sv, exif));
  const Bytes in_profile = chunk("zTXt", joined("Raw profile type exif\0\0"sv, packed(profile)));
  EXPECT_EQ(png_orientation({in_chunk}), 8);
  EXPECT_EQ(png_orientation({}, {in_chunk}), 8);
  EXPECT_EQ(png_orientation({in_text}), 8);
  EXPECT_EQ(png_orientation({in_profile}), 5);
  EXPECT_EQ(png_orientation({}, {chunk("tEXt", joined("Raw profile type exif\0"sv, profile))}), 5);
  EXPECT_EQ(png_orientation({in_chunk}, {in_profile}), 8);
  EXPECT_EQ(png_orientation({chunk("tEXt", joined("Raw profile type APP1\0"sv, profile))}), 1);
  EXPECT_EQ(png_orientation({chunk("tEXt", joined("Raw profile type exif\0"sv, bytes_of("\nexif\n 2\nxy\n")))}), 1);
}

TEST(OrientationTest, PngsHaveXmpInTexts) {
  constexpr auto kPlain = "XML:com.adobe.xmp\0\0\0\0\0"sv, kPacked = "XML:com.adobe.xmp\0\1\0de\0x\0"sv;
  EXPECT_EQ(png_orientation({chunk("iTXt", joined(kPlain, kXmp6))}), 6);
  EXPECT_EQ(png_orientation({}, {chunk("iTXt", joined(kPlain, kXmp6))}), 6);
  EXPECT_EQ(png_orientation({chunk("iTXt", joined(kPacked, packed(kXmp3)))}), 3);
  EXPECT_EQ(png_orientation({chunk("tEXt", joined("XML:com.adobe.xmp\0"sv, kXmp6))}), 6);
  EXPECT_EQ(png_orientation({chunk("eXIf", tiff(true, kShort, 8)), chunk("iTXt", joined(kPlain, kXmp6))}), 8);
  EXPECT_EQ(png_orientation({chunk("iTXt", joined("Comment\0\0\0\0\0"sv, kXmp6))}), 1);
}

TEST(OrientationTest, ATextThatInflatesToMoreThanAMegabyteIsPassedOver) {
  const auto padded = [](size_t size) {
    Bytes text = kXmp6;
    text.resize(size, ' ');
    return chunk("zTXt", joined("XML:com.adobe.xmp\0\0"sv, packed(text)));
  };
  EXPECT_EQ(png_orientation({padded(1 << 20)}), 6);
  EXPECT_EQ(png_orientation({padded((1 << 20) + 1)}), 1);
  const std::vector<Bytes> many(64, padded((1 << 20) + 1));
  EXPECT_EQ(codec_for(Encoding::kPng).orientation(png_with(many, {padded(100)})), 1);  // the 65th is not inflated
}

TEST(OrientationTest, BrokenChunksArePassedOver) {
  Bytes damaged = chunk("eXIf", tiff(true, kShort, 8));
  damaged[20] ^= 1;
  EXPECT_EQ(png_orientation({damaged}), 1);
  for (const auto head : {"XML:com.adobe.xmp"sv, "XML:com.adobe.xmp\0"sv, "XML:com.adobe.xmp\0\0"sv,
                          "XML:com.adobe.xmp\0\0\0de"sv, "XML:com.adobe.xmp\0\1\1\0\0"sv})
    EXPECT_EQ(codec_for(Encoding::kPng).orientation(joined("signature"sv.substr(0, 8), chunk("iTXt", bytes_of(head)))),
              1);
  Bytes cut = joined("signature"sv.substr(0, 8), chunk("eXIf", tiff(true, kShort, 8)));
  for (size_t size = 0; size < cut.size(); ++size)
    EXPECT_EQ(codec_for(Encoding::kPng).orientation(std::span(cut).first(size)), 1);
  EXPECT_EQ(codec_for(Encoding::kPng).orientation(cut), 8);
}

}  // namespace
}  // namespace penstock::detail
