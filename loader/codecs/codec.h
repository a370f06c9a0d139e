// Codec: answers one question: the pixels of this region of this sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "augment/plan.h"
#include "augment/render.h"
#include "loader/shard.h"

namespace penstock {

namespace detail {
struct JpegScratch;
}

/// Buffers that a worker keeps between samples, so that decoding allocates only when a picture is larger than all
/// before.
class DecodeScratch {
 public:
  DecodeScratch();
  ~DecodeScratch();
  DecodeScratch(DecodeScratch&&) noexcept;
  DecodeScratch& operator=(DecodeScratch&&) noexcept;

  std::vector<uint8_t> pixels;
  detail::JpegScratch& jpeg();  ///< Made by the first call.

 private:
  std::unique_ptr<detail::JpegScratch> jpeg_;
};

/// How a JPEG's region is found. Every way gives the same pixels.
enum class DecodePath : uint8_t {
  kAuto,    ///< The first of the others that the sample allows, in this order.
  kIndex,   ///< The coefficient store, or the seek index: the MCUs under the region alone. Forced on a JPEG without an
            ///< index: the same decoder from the scan's begin, where the JPEG is one that it takes.
  kRegion,  ///< libjpeg-turbo, from the begin of the picture to the region's last row.
  kFull,    ///< libjpeg-turbo, the whole picture.
};

/// What is wanted of a picture.
struct DecodeRequest {
  Region region =
      {};             ///< Of the picture at `dct_scale`: pixels of (height * dct_scale + 7) / 8 rows, columns likewise.
  int dct_scale = 8;  ///< 1, 2, 4 or 8 eighths; below 8 where the codec is scalable.
  int channels = 3;   ///< 1 or 3: grey is replicated to RGB, RGB is never made grey.
  DecodePath path = DecodePath::kAuto;
};

/// Decodes samples of one encoding. Its file registers it, and says all that others need to know of it.
/// Errors: corrupt_error whose message states the fact only; the caller puts shard, sample and offset before it.
/// Thread-safety: const, no state; one DecodeScratch a thread.
class Codec {
 public:
  virtual ~Codec() = default;
  /// At least request.region of the picture. The result may cover more than was asked; it is valid until `scratch` is
  /// used again or the sample's map is gone.
  virtual Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const = 0;
  /// Extent from the header alone. channels is 1 or 3.
  virtual Extent probe(std::span<const uint8_t> bytes) const = 0;
  /// EXIF's orientation, 1 .. 8; 1 where the encoding has none.
  virtual uint8_t orientation(std::span<const uint8_t>) const { return 1; }
  /// The sample as a file, which unpack() writes.
  virtual std::vector<uint8_t> file(const Sample& sample) const { return {sample.bytes.begin(), sample.bytes.end()}; }
};

struct CodecTraits {
  std::string name;                     ///< As messages and `shardprep info` call it.
  std::vector<std::string> extensions;  ///< Of its files, in lower case; unpack() gives its file the first one.
  std::vector<uint8_t> signature = {};  ///< What its files begin with; empty: sources have no such files.
  bool is_scalable = false;             ///< Decodes at a DCT scale below 8 too.
  bool is_lossless = false;             ///< Holds any pixels exactly.
};

/// A static object of this type registers the codec of `encoding`, as the last statement of the codec's file. `codec`
/// lives as long as the program. Throws bug_error for an encoding that has one.
struct RegisteredCodec {
  RegisteredCodec(Encoding encoding, CodecTraits traits, const Codec& codec);
};

/// Throws corrupt_error for an encoding without a codec. O(1).
const Codec& codec_for(Encoding encoding);
const CodecTraits& codec_traits(Encoding encoding);

/// By content, never by file name: the codecs' signatures. Throws corrupt_error naming the first bytes otherwise.
Encoding detect_encoding(std::span<const uint8_t> bytes);

/// Whether a file of this name is a picture, by the codecs' extensions in any case.
bool has_picture_extension(const std::filesystem::path& path);

}  // namespace penstock
