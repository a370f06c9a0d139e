// JPEGs about whose header libjpeg-turbo warns, without a change to a pixel: they are packed, decode to the pixels of
// the same file without the oddity, come back byte for byte, and are counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/codecs/codec.h"
#include "loader/jpeg/base/header.h"
#include "loader/pack/unpack.h"
#include "loader/pack/verify.h"
#include "loader/shards/dataset.h"
#include "tests/loader/jpeg_pictures.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::IsEmpty;
using testing::StartsWith;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::JpegKind;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;

/// The position of the first marker of this kind from `from` on.
size_t place_of(const Bytes& file, uint8_t marker, size_t from = 2) {
  for (size_t at = from; at + 1 < file.size(); ++at)
    if (file[at] == 0xFF && file[at + 1] == marker) return at;
  ADD_FAILURE() << "no marker " << int{marker};
  return 0;
}

Bytes with_bytes(const Bytes& file, size_t at, const Bytes& more) {
  Bytes changed = file;
  changed.insert(changed.begin() + static_cast<ptrdiff_t>(at), more.begin(), more.end());
  return changed;
}

/// The file without its JFIF segment, and with an APP14 segment of Adobe's with this colour transform.
Bytes with_adobe(Bytes file, uint8_t transform) {
  if (file[3] == 0xE0) file.erase(file.begin() + 2, file.begin() + 4 + (file[4] << 8 | file[5]));
  if (file[3] == 0xEE) file.erase(file.begin() + 2, file.begin() + 4 + (file[4] << 8 | file[5]));
  return with_bytes(file, 2, {0xFF, 0xEE, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, transform});
}

/// All scans with these bytes as Ss, Se, and Ah with Al.
Bytes with_spectrum(Bytes file, const Bytes& spectrum) {
  for (size_t at = place_of(file, 0xDA); at + 1 < file.size(); ++at) {
    if (file[at] != 0xFF || file[at + 1] != 0xDA) continue;
    std::copy(spectrum.begin(), spectrum.end(), file.begin() + static_cast<ptrdiff_t>(at) + 5 + 2 * file[at + 4]);
  }
  return file;
}

Bytes plain_picture(const JpegKind& kind) {
  Rng rng(43, 0, 0, 0);
  return testing_data::encode_jpeg(kind, 40, 50, 80, rng);
}

struct Odd {
  std::string name;
  Bytes file, plain;  // plain: the same picture without the oddity
};

std::vector<Odd> odd_files() {
  const JpegKind colour{"420", {2, 2}}, grey{"grey", {1, 1}, {1, 1}, JCS_GRAYSCALE}, ycck{"", {1, 1}, {1, 1}, JCS_YCCK};
  const JpegKind progressive{"progressive", {2, 2}, {1, 1}, JCS_YCbCr, true};
  const JpegKind scans{"", {1, 1}, {1, 1}, JCS_YCbCr, false, {{1, {0}, 0, 63, 0, 0}, {2, {1, 2}, 0, 63, 0, 0}}};
  const JpegKind arithmetic{"", {2, 2}, {1, 1}, JCS_YCbCr, false, {}, true};
  std::vector<Odd> odd;
  for (const auto& kind : {colour, grey, scans, arithmetic}) {
    odd.push_back({"Se is 0", with_spectrum(plain_picture(kind), {0, 0, 0}), plain_picture(kind)});
    odd.push_back({"Ss, Se and Al are 5, 9 and 1", with_spectrum(plain_picture(kind), {5, 9, 1}), plain_picture(kind)});
  }
  for (const auto& kind : {colour, progressive}) {
    const Bytes plain = plain_picture(kind);
    odd.push_back({"junk before DQT", with_bytes(plain, place_of(plain, 0xDB), {1, 2, 3}), plain});
    odd.push_back({"a stuffed zero before DQT", with_bytes(plain, place_of(plain, 0xDB), {0xFF, 0}), plain});
    odd.push_back({"junk before SOS", with_bytes(plain, place_of(plain, 0xDA), {0, 0xFF, 0xFF, 0, 7}), plain});
    odd.push_back({"Adobe transform 9", with_adobe(plain, 9), with_adobe(plain, 1)});
  }
  odd.push_back({"Adobe transform 9 of YCCK", with_adobe(plain_picture(ycck), 9), with_adobe(plain_picture(ycck), 2)});
  odd.push_back({"revision 0 of JFIF", plain_picture(colour), plain_picture(colour)});
  odd.back().file[11] = 0;
  return odd;
}

/// The pixels of the whole picture by one path.
Bytes pixels_by(const Bytes& file, DecodePath path, int scale = 8) {
  const auto& codec = codec_for(Encoding::kJpeg);
  const Extent extent = codec.probe(file);
  const Sample sample{.extent = extent, .encoding = Encoding::kJpeg, .bytes = file};
  DecodeScratch scratch;
  const Region whole{0, 0, (extent.width * scale + 7) / 8, (extent.height * scale + 7) / 8};
  const DecodeRequest request{.region = whole, .dct_scale = scale, .channels = extent.channels, .path = path};
  const Picture found = codec.decode(sample, request, scratch);
  Bytes all;
  for (int y = 0; y < found.height; ++y)
    all.insert(all.end(), found.pixels + y * found.row_stride,
               found.pixels + y * found.row_stride + ptrdiff_t{found.width} * found.channels);
  return all;
}

TEST(JpegWarningsTest, EveryPathGivesThePixelsOfThePlainFile) {
  for (const auto& odd : odd_files())
    for (const int scale : {1, 8})
      for (const auto path : {DecodePath::kAuto, DecodePath::kIndex, DecodePath::kRegion, DecodePath::kFull})
        EXPECT_EQ(pixels_by(odd.file, path, scale), pixels_by(odd.plain, DecodePath::kFull, scale))
            << odd.name << ", path " << static_cast<int>(path);
}

TEST(JpegWarningsTest, TheHeaderKnowsWhetherLibjpegWarns) {
  for (const auto& odd : odd_files()) {
    EXPECT_TRUE(detail::parse_jpeg_header(odd.file).has_warning) << odd.name;
    EXPECT_FALSE(detail::parse_jpeg_header(odd.plain).has_warning) << odd.name;
  }
}

TEST(JpegWarningsTest, TheyArePackedInEveryStorageComeBackAndAreCounted) {
  const auto all = odd_files();
  const TemporaryFolder folder;
  for (size_t i = 0; i < all.size(); ++i) {
    write_bytes(folder / ("odd/c/" + std::to_string(100 + i) + ".jpg"), all[i].file);
    write_bytes(folder / ("plain/c/" + std::to_string(100 + i) + ".jpg"), all[i].plain);
  }
  for (const Encode encode : {Encode::kAuto, Encode::kCoefficients, Encode::kKeep, Encode::kJpeg, Encode::kRaw}) {
    for (const bool transcodes : {true, false}) {
      SCOPED_TRACE(testing::Message() << encode_name(encode) << ", " << transcodes);
      std::map<std::string, Manifest> manifests;
      for (const std::string name : {"odd", "plain"}) {
        PackOptions options = testing_data::pictures(folder);
        options.input = folder / name;
        options.output = folder / ("packed " + name);
        options.force = true;
        options.storage = {.encode = encode, .transcodes = transcodes};
        pack(options);
        manifests[name] = read_manifest(options.output / "train");
        EXPECT_THAT(verify(options.output / "train").lines, IsEmpty());
      }
      EXPECT_EQ(manifests["odd"].warned_count, all.size());
      EXPECT_EQ(manifests["plain"].warned_count, 0u);
      EXPECT_EQ(manifests["odd"].statistics.mean, manifests["plain"].statistics.mean);
      EXPECT_EQ(manifests["odd"].transcoded_count, manifests["plain"].transcoded_count);
      if (encode != Encode::kAuto && encode != Encode::kKeep) continue;
      unpack(folder / "packed odd/train", folder / "back");
      const auto back = testing_data::files_below(folder / "back");
      size_t same_count = 0;
      for (const auto& [path, bytes] : testing_data::files_below(folder / "odd")) same_count += back.at(path) == bytes;
      EXPECT_EQ(same_count, all.size() - manifests["odd"].transcoded_count);
      std::filesystem::remove_all(folder / "back");
    }
  }
}

TEST(JpegWarningsTest, ALengthBelowTwoOfASegmentThatIsSkippedIsTwo) {
  const Bytes plain = plain_picture({"420", {2, 2}});
  for (const uint8_t marker : {0xE3, 0xEE, 0xFE})
    for (const uint8_t length : {0, 1}) {
      const Bytes file = with_bytes(plain, 2, {0xFF, marker, 0, length});
      for (const auto path : {DecodePath::kIndex, DecodePath::kFull})
        EXPECT_EQ(pixels_by(file, path), pixels_by(plain, DecodePath::kFull)) << int{marker};
      EXPECT_FALSE(detail::parse_jpeg_header(file).has_warning);
    }
}

/// Whether our parser and libjpeg refuse a file alike.
TEST(JpegWarningsTest, WhatOneReaderRefusesTheOtherRefusesToo) {
  const Bytes plain = plain_picture({"420", {2, 2}}), several = plain_picture({"", {1, 1}, {1, 1}, JCS_YCbCr, true});
  const size_t dqt = place_of(plain, 0xDB), second_scan = place_of(several, 0xDA, place_of(several, 0xDA) + 2);
  Bytes quant_zero = plain;
  quant_zero[dqt + 5] = 0;
  for (const auto& [name, file] : std::vector<std::pair<std::string, Bytes>>{
           {"an unknown marker", with_bytes(plain, dqt, {0xFF, 0x02, 0, 2})},
           {"another unknown marker", with_bytes(plain, dqt, {0xFF, 0xF4, 0, 2})},
           {"a second SOI", with_bytes(plain, dqt, {0xFF, 0xD8})},
           {"a table of length 1", with_bytes(plain, dqt, {0xFF, 0xDB, 0, 1})},
           {"junk before EOI", with_bytes(plain, plain.size() - 2, {1, 2, 3, 4, 5, 6, 7, 8, 9})},
           {"junk between scans", with_bytes(several, second_scan, Bytes(64, 3))},
           {"quantisation step 0", quant_zero}}) {
    const TemporaryFolder folder;
    write_bytes(folder / "in/c/p.jpg", file);
    for (const Encode encode : {Encode::kAuto, Encode::kKeep, Encode::kRaw})
      for (const bool honours_exif : {true, false}) {
        PackOptions options = testing_data::pictures(folder);
        options.storage = {.encode = encode, .honours_exif = honours_exif};
        EXPECT_THAT(error_of([&] { pack(options); }), StartsWith("4 "))
            << name << ", " << encode_name(encode) << ", " << honours_exif;
      }
  }
}

}  // namespace
}  // namespace penstock
