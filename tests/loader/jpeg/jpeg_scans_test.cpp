// JPEGs of several scans: the whole file is a picture, and a file without some of its scans is corrupt, however it is
// stored and decoded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/codecs/codec.h"
#include "loader/jpeg/entropy/transcode.h"
#include "loader/shards/dataset.h"
#include "tests/loader/jpeg_pictures.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::JpegKind;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;

constexpr int kHeight = 40, kWidth = 50;

jpeg_scan_info whole_component(int component) { return {1, {component}, 0, 63, 0, 0}; }

std::vector<JpegKind> kinds_of_several_scans() {
  return {{"progressive 420", {2, 2}, {1, 1}, JCS_YCbCr, true},
          {"progressive grey", {1, 1}, {1, 1}, JCS_GRAYSCALE, true},
          {"progressive cmyk", {1, 1}, {1, 1}, JCS_CMYK, true},
          {"arithmetic progressive", {2, 1}, {1, 1}, JCS_YCbCr, true, {}, true},
          {"a scan a component",
           {2, 2},
           {1, 1},
           JCS_YCbCr,
           false,
           {whole_component(0), whole_component(1), whole_component(2)}},
          {"chroma first", {1, 1}, {1, 1}, JCS_YCbCr, false, {{2, {1, 2}, 0, 63, 0, 0}, whole_component(0)}}};
}

Bytes picture(const JpegKind& kind) {
  Rng rng(41, 0, 0, 0);
  return testing_data::encode_jpeg(kind, kHeight, kWidth, 80, rng);
}

/// The positions at which the scans begin, each with the tables before it, and the position at which the last one ends.
std::vector<size_t> scan_borders(const Bytes& file) {
  std::vector<size_t> borders;
  size_t at = 2, begin = 0;
  while (file[at + 1] != 0xD9) {
    const int marker = file[at + 1];
    if (begin == 0 && (marker == 0xC4 || marker == 0xDA || marker == 0xCC)) begin = at;  // DHT, SOS, DAC
    at += 2 + (size_t{file[at + 2]} << 8 | file[at + 3]);
    if (marker != 0xDA) continue;
    while (file[at] != 0xFF || file[at + 1] == 0) ++at;
    borders.push_back(std::exchange(begin, 0));
  }
  borders.push_back(at);
  return borders;
}

/// The file without the scans `begin` .. `end` - 1.
Bytes without_scans(const Bytes& file, size_t begin, size_t end) {
  const auto borders = scan_borders(file);
  Bytes cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(borders[begin]));
  cut.insert(cut.end(), file.begin() + static_cast<ptrdiff_t>(borders[end]), file.end());
  return cut;
}

/// The error of every way of decoding the file.
std::vector<std::string> errors_of(const Bytes& file) {
  const auto& codec = codec_for(Encoding::kJpeg);
  const Sample sample{.extent = codec.probe(file), .encoding = Encoding::kJpeg, .bytes = file};
  std::vector<std::string> errors{error_of([&] { detail::transcode_to_baseline(file); })};
  DecodeScratch scratch;
  for (const DecodePath path : {DecodePath::kAuto, DecodePath::kIndex, DecodePath::kRegion, DecodePath::kFull})
    for (const int scale : {1, 8})
      for (const Region region : {Region{0, 0, 1, 1}, Region{1, 2, 3, 3}})
        errors.push_back(
            error_of([&] { codec.decode(sample, {.region = region, .dct_scale = scale, .path = path}, scratch); }));
  return errors;
}

TEST(JpegScansTest, PicturesAreWholeWithAllOfTheirScans) {
  for (const auto& kind : kinds_of_several_scans())
    for (const auto& error : errors_of(picture(kind))) EXPECT_THAT(error, IsEmpty()) << kind.name;
}

TEST(JpegScansTest, AMissingScanIsFoundHoweverThePictureIsDecoded) {
  for (const auto& kind : kinds_of_several_scans()) {
    const Bytes whole = picture(kind);
    const size_t count = scan_borders(whole).size() - 1;
    ASSERT_GT(count, 1U) << kind.name;
    for (size_t first = 1; first < count; ++first)
      for (const auto& error : errors_of(without_scans(whole, first, count)))
        EXPECT_THAT(error, StartsWith("4 JPEG: no scan has ")) << kind.name << ", " << first << " of " << count;
    for (size_t scan = 0; scan < count; ++scan)
      for (const auto& error : errors_of(without_scans(whole, scan, scan + 1)))
        EXPECT_THAT(error, StartsWith("4 JPEG: ")) << kind.name << " without scan " << scan;
  }
}

TEST(JpegScansTest, TheMessageNamesWhatIsMissing) {
  const auto message = [](size_t kind, size_t first) {
    const Bytes whole = picture(kinds_of_several_scans()[kind]);
    return errors_of(without_scans(whole, first, scan_borders(whole).size() - 1)).front();
  };
  EXPECT_EQ(message(0, 9),
            "4 JPEG: no scan has the last bits of coefficient 1 of component 1 of 3; expected a whole picture");
  EXPECT_EQ(message(0, 1),
            "4 JPEG: no scan has the last bits of coefficient 0 of component 1 of 3; expected a whole picture");
  EXPECT_EQ(message(4, 2), "4 JPEG: no scan has component 3 of 3; expected a whole picture");
}

/// Packs a folder with a whole picture and this one. Returns the error of pack() or, where it skips the picture, what
/// it packed.
std::string packed(const TemporaryFolder& folder, const StorageOptions& storage, bool skips, Manifest* manifest) {
  auto options = testing_data::pictures(folder);
  options.shard_count = 1;
  options.force = true;
  options.storage = storage;
  options.skip_corrupt = skips;
  const std::string error = error_of([&] { pack(options); });
  if (error.empty()) *manifest = read_manifest(folder / "out/train");
  return error;
}

TEST(JpegScansTest, APictureWithoutItsLastScansPacksInNoStorage) {
  const auto kinds = kinds_of_several_scans();
  for (const size_t kind : {size_t{0}, size_t{4}}) {
    const TemporaryFolder folder;
    const Bytes whole = picture(kinds[kind]);
    write_bytes(folder / "in/a/whole.jpg", whole);
    write_bytes(folder / "in/a/cut.jpg", without_scans(whole, 2, scan_borders(whole).size() - 1));
    std::vector<PerChannel<double>> means;
    for (const Encode encode : {Encode::kAuto, Encode::kCoefficients, Encode::kKeep, Encode::kJpeg, Encode::kRaw}) {
      for (const bool transcodes : {true, false}) {
        SCOPED_TRACE(testing::Message() << kinds[kind].name << ", " << encode_name(encode) << ", " << transcodes);
        const StorageOptions storage{.encode = encode, .transcodes = transcodes};
        Manifest manifest;
        EXPECT_THAT(packed(folder, storage, false, &manifest), HasSubstr("cut.jpg: JPEG: no scan has "));
        EXPECT_THAT(packed(folder, storage, true, &manifest), IsEmpty());
        EXPECT_EQ(manifest.sample_count, 1U);
        EXPECT_EQ(manifest.skipped_count, 1U);
        if (encode != Encode::kJpeg) means.push_back(manifest.statistics.mean);
      }
    }
    for (const auto& mean : means) EXPECT_EQ(mean, means.front());  // every storage gives the same pixels
  }
}

}  // namespace
}  // namespace penstock
