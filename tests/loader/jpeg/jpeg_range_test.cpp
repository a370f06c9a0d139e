// JPEGs whose samples leave the range in which all decoders agree: which those are, and that pack() stores them so that
// every path gives libjpeg's pixels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "loader/codecs/codec.h"
#include "loader/jpeg/entropy/huffman.h"
#include "loader/jpeg/pixels/pixels.h"
#include "loader/jpeg/store/codebook_training.h"
#include "loader/jpeg/store/sample_range.h"
#include "loader/pack/encoder.h"
#include "tests/loader/jpeg_pictures.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using detail::BlockRange;
using detail::JpegGeometry;
using detail::kMostSample;
using detail::parse_jpeg_header;
using testing::IsEmpty;
using testing_data::Bytes;
using testing_data::decode_by_libjpeg;
using testing_data::difference;
using testing_data::encode_jpeg;
using testing_data::WholePicture;

/// The greatest sample of a block, in absolute value: T.81, A.3.3, in double precision.
double greatest_sample(const std::array<int16_t, 64>& coefficients, const std::array<uint16_t, 64>& quant) {
  const auto basis = [](int frequency, int place) {
    return (frequency == 0 ? std::numbers::sqrt2 / 2 : 1.0) *
           std::cos((2 * place + 1) * frequency * std::numbers::pi / 16);
  };
  double greatest = 0;
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) {
      double sample = 0;
      for (int i = 0; i < 64; ++i) sample += coefficients[i] * quant[i] * basis(i / 8, y) * basis(i % 8, x) / 4;
      greatest = std::max(greatest, std::fabs(sample));
    }
  return greatest;
}

TEST(BlockRangeTest, EndsAtTheGreatestSample) {
  int held = 0, left = 0;
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    Rng rng(41, 0, trial, 0);
    const int rows = rng.between(1, 8), most = 1 << rng.between(0, 15), greatest_step = 1 << rng.between(1, 16);
    std::array<int16_t, 64> block{};
    std::array<uint16_t, 64> quant{};
    for (auto& step : quant) step = static_cast<uint16_t>(rng.between(1, greatest_step - 1));
    for (int i = 0; i < 8 * rows; ++i)
      if (rng.chance(0.5)) block[i] = static_cast<int16_t>(rng.between(-most, most - 1));
    const double sample = greatest_sample(block, quant);
    if (std::fabs(sample - kMostSample) < 2) continue;  // rounding decides
    const bool holds = BlockRange(quant).holds(block.data(), rows);
    ASSERT_EQ(holds, sample < kMostSample) << "trial " << trial << ", sample " << sample;
    ++(holds ? held : left);
  }
  EXPECT_GT(held, 300);
  EXPECT_GT(left, 300);
}

TEST(BlockRangeTest, HoldsUpToTheLimitAndNotBeyond) {
  const auto holds = [](int dc) {
    std::array<int16_t, 64> block{static_cast<int16_t>(dc)};
    std::array<uint16_t, 64> quant{};
    quant[0] = 1;
    return BlockRange(quant).holds(block.data(), 0);
  };
  for (const int sign : {1, -1}) {
    EXPECT_TRUE(holds(sign * 8 * kMostSample));
    EXPECT_FALSE(holds(sign * 8 * (kMostSample + 1)));
  }
  EXPECT_FALSE(holds(-32768));
}

/// Multiplies all quantisation steps of a JPEG, which has tables of 8 bits, up to 255.
void coarsen(Bytes& file, int factor) {
  for (size_t at = 2; file[at] == 0xFF && file[at + 1] != 0xDA; at += size_t{2} + file[at + 2] * 256 + file[at + 3]) {
    if (file[at + 1] != 0xDB) continue;
    const size_t end = at + 2 + file[at + 2] * 256 + file[at + 3];
    for (size_t i = at + 4; i < end; ++i)
      if ((i - at - 4) % 65 != 0) file[i] = static_cast<uint8_t>(std::min(file[i] * factor, 255));
  }
}

bool is_in_range(const Bytes& file) {
  const auto header = parse_jpeg_header(file);
  return detail::has_samples_in_range(header, JpegGeometry(header), file);
}

/// How often our own decoder gives other pixels than libjpeg, over all scales.
int scales_that_differ(const Bytes& file) {
  const auto header = parse_jpeg_header(file);
  const JpegGeometry geometry(header);
  static detail::PixelScratch scratch;
  int count = 0;
  for (const int scale : {1, 2, 4, 8}) {
    const WholePicture whole = decode_by_libjpeg(file, scale, 3);
    detail::HuffmanSource source(header, geometry, file);
    const Region region{0, 0, whole.width, whole.height};
    count += !difference(decode_pixels(header, geometry, source, region, scale, 3, scratch), region, whole).empty();
  }
  return count;
}

TEST(SampleRangeTest, OursGivesLibjpegsPixelsInRangeAndNotBeyond) {
  int wild_in_range = 0, different_beyond = 0;
  for (const auto& kind : testing_data::jpeg_kinds())
    for (const int factor : {1, 2, 3, 4, 6, 8, 16, 64, 255}) {
      SCOPED_TRACE(testing::Message() << kind.name << ", steps times " << factor);
      Rng rng(42, 0, static_cast<uint64_t>(factor), 0);
      Bytes file = encode_jpeg(kind, 40, 56, 95, rng);
      coarsen(file, factor);
      const int different = scales_that_differ(file);
      if (is_in_range(file)) {
        EXPECT_EQ(different, 0);
        wild_in_range += factor > 1;
      } else {
        different_beyond += different > 0;
      }
    }
  EXPECT_GT(wild_in_range, 5);
  EXPECT_GT(different_beyond, 20);  // otherwise the range is smaller than it need be
}

class SampleRangeStorageTest : public testing::TestWithParam<Encode> {
 protected:
  detail::Encoded encoded(const Bytes& file) const {
    static const auto codebook =
        std::make_shared<const detail::Codebook>(detail::train_codebook(detail::TrainingSample(), 1));
    DecodeScratch scratch;
    return detail::Encoder({.encode = GetParam()}, codebook)
        .encode(0, {file, Encoding::kJpeg, codec_for(Encoding::kJpeg).probe(file)}, scratch);
  }

  /// Expects that all paths give libjpeg's pixels of what is stored, at every scale.
  void expect_libjpegs_pixels(const detail::Encoded& stored, const WholePicture& whole, int scale, Rng& rng) const {
    const detail::Codebook codebook = detail::train_codebook(detail::TrainingSample(), 1);
    const Sample sample{.extent = stored.extent,
                        .encoding = stored.encoding,
                        .bytes = stored.bytes,
                        .seek_index = stored.seek_index,
                        .codebook = &codebook};
    DecodeScratch scratch;
    for (const DecodePath path : {DecodePath::kAuto, DecodePath::kIndex, DecodePath::kRegion, DecodePath::kFull}) {
      const Region region = testing_data::random_region(whole.height, whole.width, rng);
      const Picture picture =
          codec_for(stored.encoding)
              .decode(sample, {.region = region, .dct_scale = scale, .channels = 3, .path = path}, scratch);
      ASSERT_THAT(difference(picture, region, whole), IsEmpty()) << "path " << static_cast<int>(path);
    }
  }
};

TEST_P(SampleRangeStorageTest, EveryPathGivesLibjpegsPixelsOfAWildPicture) {
  for (const auto& kind : testing_data::jpeg_kinds()) {
    SCOPED_TRACE(kind.name);
    Rng rng(43, 0, 0, 0);
    Bytes file = encode_jpeg(kind, 50, 70, 90, rng);
    coarsen(file, 255);
    const detail::Encoded stored = encoded(file);
    EXPECT_EQ(stored.encoding, Encoding::kJpeg);
    EXPECT_THAT(stored.seek_index, IsEmpty());
    EXPECT_EQ(stored.bytes, file);
    for (const int scale : {1, 2, 4, 8}) expect_libjpegs_pixels(stored, decode_by_libjpeg(file, scale, 3), scale, rng);
  }
}

TEST_P(SampleRangeStorageTest, EveryPathGivesLibjpegsPixelsOfDamageThatNobodyNotices) {
  Rng rng(44, 0, 0, 0);
  Bytes whole = encode_jpeg({"420", {2, 2}}, 64, 64, 90, rng);
  coarsen(whole, 2);  // so that a damaged DC leaves the range sooner
  ASSERT_TRUE(is_in_range(whole));
  const auto begin = static_cast<int>(parse_jpeg_header(whole).scan_begin), end = static_cast<int>(whole.size()) - 2;
  int kept = 0, stored_as_usual = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    Bytes file = whole;
    if (trial % 2 == 0) {
      file[rng.between(begin, end - 1)] ^= 1 << rng.between(0, 7);
    } else {
      const auto at = file.begin() + rng.between(begin, end - 5);
      file.erase(at, at + rng.between(1, 4));
    }
    detail::Encoded stored;
    if (!testing_data::error_of([&] {
           stored = encoded(file);
           // What pack() does too: a picture that cannot be decoded is refused.
           DecodeScratch scratch;
           codec_for(Encoding::kJpeg)
               .decode({.extent = stored.extent, .encoding = Encoding::kJpeg, .bytes = file},
                       {.region = {0, 0, 1, 1}, .path = DecodePath::kFull}, scratch);
         }).empty())
      continue;
    ++(stored.encoding == Encoding::kJpeg && stored.seek_index.empty() ? kept : stored_as_usual);
    const int scale = 1 << rng.between(0, 3);
    expect_libjpegs_pixels(stored, decode_by_libjpeg(file, scale, 3), scale, rng);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(kept, 2);
  EXPECT_GT(stored_as_usual, 50);
}

/// A grey picture of one block with restart markers, whose coefficient 1 is 1024: one bit more than a baseline JPEG
/// has.
Bytes picture_of_eleven_bits() {
  Bytes file{0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0};
  file.insert(file.end(), 64, 1);
  const Bytes rest{
      0xFF, 0xC1, 0,    11, 8,    0, 8,    0, 8,  1, 1, 0x11, 0,                             // SOF1, 8 x 8
      0xFF, 0xC4, 0,    20, 0x00, 1, 0,    0, 0,  0, 0, 0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  // DC: 0 is size 0
      0xFF, 0xC4, 0,    21, 0x10, 0, 2,    0, 0,  0, 0, 0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 11,
      0,    0xFF, 0xDD, 0,  4,    0, 1,               // DRI
      0xFF, 0xDA, 0,    8,  1,    1, 0x00, 0, 63, 0,  // SOS
      0x10, 0x01,                                     // 0, 00 10000000000, 01: DC 0, coefficient 1 is 1024, the end
      0xFF, 0xD9};
  file.insert(file.end(), rest.begin(), rest.end());
  return file;
}

TEST_P(SampleRangeStorageTest, PictureThatNoBaselineJpegHoldsIsStoredAsItIs) {
  const Bytes file = picture_of_eleven_bits();
  ASSERT_TRUE(is_in_range(file));
  const detail::Encoded stored = encoded(file);
  EXPECT_FALSE(stored.is_transcoded);
  EXPECT_EQ(stored.encoding, GetParam() == Encode::kKeep ? Encoding::kJpeg : Encoding::kCoefficients);
  if (stored.encoding == Encoding::kJpeg) {
    EXPECT_EQ(stored.bytes, file);
  }
  Rng rng(45, 0, 0, 0);
  expect_libjpegs_pixels(stored, decode_by_libjpeg(file, 8, 3), 8, rng);
}

INSTANTIATE_TEST_SUITE_P(AllEncodes, SampleRangeStorageTest,
                         testing::Values(Encode::kAuto, Encode::kCoefficients, Encode::kKeep),
                         [](const auto& info) { return encode_name(info.param); });

}  // namespace
}  // namespace penstock
