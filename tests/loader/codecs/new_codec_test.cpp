// A codec that only this file knows. Everything else learns about it from its registration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/registry.h"
#include "loader/codecs/codec.h"
#include "loader/pack/unpack.h"
#include "loader/pack/verify.h"
#include "loader/shards/dataset.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::read_bytes;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;

constexpr Encoding kInverted{200};

/// The format: "INV", height, width, and inverted grey levels.
class InvertedCodec final : public Codec {
 public:
  Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const override {
    const auto [height, width, channels] = sample.extent;
    scratch.pixels.clear();
    for (const uint8_t level : sample.bytes.subspan(5))
      scratch.pixels.insert(scratch.pixels.end(), static_cast<size_t>(request.channels), uint8_t(255 - level));
    return {scratch.pixels.data(), ptrdiff_t{width} * request.channels, height, width, request.channels, 0, 0};
  }
  Extent probe(std::span<const uint8_t> bytes) const override { return {bytes[3], bytes[4], 1}; }
};

const InvertedCodec kCodec;
const RegisteredCodec kRegistered{
    kInverted, {.name = "INV", .extensions = {".inv"}, .signature = {'I', 'N', 'V'}, .is_lossless = true}, kCodec};

const Bytes kFile{'I', 'N', 'V', 1, 2, 255, 155};

TEST(NewCodecTest, IsPackedLoadedVerifiedAndUnpackedWithoutAnEditElsewhere) {
  const TemporaryFolder folder;
  write_bytes(folder / "in/a/one.INV", kFile);
  write_bytes(folder / "in/a/two", kFile);
  pack(testing_data::pictures(folder));
  const auto dataset = Dataset::open(folder / "out");
  ASSERT_EQ(dataset->size(), 2U);
  EXPECT_EQ(dataset->at(0).encoding, kInverted);
  EXPECT_NEAR(dataset->manifest().statistics.mean[0], 50 / 255., 1e-9);
  EXPECT_EQ(verify(folder / "out/train").count, 0U);
  unpack(folder / "out/train", folder / "back", 1, {});
  EXPECT_EQ(read_bytes(folder / "back/a/one.INV"), kFile);
  EXPECT_EQ(codec_traits(kInverted).extensions.front(), ".inv");
}

TEST(NewCodecTest, IsOneOfThoseThatMessagesName) {
  EXPECT_EQ(detect_encoding(kFile), kInverted);
  EXPECT_TRUE(has_picture_extension("a/b.InV"));
  EXPECT_FALSE(has_picture_extension("a/inv"));
  EXPECT_THAT(error_of([] { codec_for(Encoding{199}); }), HasSubstr("5 (raw f32), 200 (INV)"));
  EXPECT_THAT(error_of([] {
                detect_encoding(Bytes{1, 2});
              }),
              HasSubstr("a PNG (89504e470d0a1a0a) or a JPEG (ffd8ff) or a INV (494e56)"));
}

TEST(NewCodecTest, AnEncodingHasOneCodec) {
  EXPECT_THAT(error_of([] { RegisteredCodec(Encoding::kPng, {.name = "png2", .extensions = {}}, kCodec); }),
              HasSubstr("6 codec png2 (encoding 1 is that of PNG): registered twice"));
}

TEST(NewCodecTest, APlugInWithNothingElseHasRegisteredSomething) {
  detail::Registrations seen;
  detail::observe_registrations(&seen);
  const RegisteredCodec added(Encoding{201}, {.name = "INV2", .extensions = {".inv2"}}, kCodec);
  EXPECT_NO_THROW(RegisteredCodec(Encoding::kPng, {.name = "png2", .extensions = {}}, kCodec));
  detail::observe_registrations(nullptr);
  EXPECT_EQ(seen.added, std::vector<std::string>{"codec INV2 (encoding 201)"});
  EXPECT_EQ(seen.taken, std::vector<std::string>{"codec png2 (encoding 1 is that of PNG)"});
  EXPECT_EQ(codec_traits(Encoding::kPng).name, "PNG");
}

}  // namespace
}  // namespace penstock
