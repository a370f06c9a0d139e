// Codec: gives the pixels of a region of a sample.
//
// Lives here: plug-ins that give the pixels of a region of a sample: one file per encoding.
// Not here: how JPEG is decoded (loader/jpeg), and how decoded pixels become a row (augment).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "augment/plan/plan.h"
#include "augment/render.h"
#include "loader/files/sample.h"

namespace penstock {

namespace detail {
struct JpegScratch;
}

/// Buffers that a worker keeps between samples, so that decoding allocates only when a picture is larger than all
/// before it.
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

/// How the region of a JPEG is decoded. Every path gives the same pixels of what pack() has stored: a picture whose
/// samples are out of range (loader/jpeg/store/sample_range.h) has neither coefficients nor a seek index.
enum class DecodePath : uint8_t {
  kAuto,  ///< The first of the others that the sample allows, in this order.
  /// The coefficient store, or the seek index: only the MCUs under the region. A JPEG that has neither is decoded as
  /// for kRegion.
  kIndex,
  kRegion,  ///< libjpeg-turbo, from the begin of the picture to the region's last row.
  kFull,    ///< libjpeg-turbo, the whole picture.
};

/// What is to be decoded of a picture, and how.
struct DecodeRequest {
  /// In pixels of the picture at `dct_scale`, which has (height * dct_scale + 7) / 8 rows and its columns likewise.
  Region region = {};
  int dct_scale = 8;  ///< 1, 2, 4 or 8 eighths; below 8 only where the codec is scalable.
  int channels = 3;   ///< 1 or 3. Grey is replicated to RGB; RGB is never made grey.
  DecodePath path = DecodePath::kAuto;
};

/// Decodes samples of one encoding. The file of a codec registers it, with all that others need to know about it.
/// Errors: corrupt_error, whose message states only the fact; the caller puts shard, sample and offset before it.
/// Thread-safety: const, without state; each thread uses a DecodeScratch of its own.
class Codec {
 public:
  virtual ~Codec() = default;
  /// Decodes at least request.region; the result may cover more. It is valid until `scratch` is used again or the
  /// sample's map is gone.
  virtual Picture decode(const Sample& sample, const DecodeRequest& request, DecodeScratch& scratch) const = 0;
  /// Whether a region costs what its own area does. Otherwise all that lies above it is decoded as well.
  virtual bool decodes_region_alone(const Sample&, DecodePath) const { return false; }
  /// The extent, from the header only.
  virtual Extent probe(std::span<const uint8_t> bytes) const = 0;
  /// The orientation that the picture's EXIF or XMP states, 1 .. 8; 1 where there is none.
  virtual uint8_t orientation(std::span<const uint8_t>) const { return 1; }
  /// Throws what decode() throws for a part of `sample`, or by another path than kAuto, and what file() throws.
  /// Requires that decode() gave the whole sample by kAuto, which for most codecs leaves nothing to check.
  virtual void check_further(const Sample&, DecodeScratch&) const {}
  /// The sample as a file, which unpack() writes.
  virtual std::vector<uint8_t> file(const Sample& sample) const { return {sample.bytes.begin(), sample.bytes.end()}; }
};

struct CodecTraits {
  std::string name;                     ///< The name in messages and in `shardprep info`.
  std::vector<std::string> extensions;  ///< Extensions of its files, in lower case; unpack() uses the first one.
  std::vector<uint8_t> signature = {};  ///< The first bytes of its files; empty: sources have no such files.
  bool is_scalable = false;             ///< Whether it can decode at a DCT scale below 8.
  bool is_lossless = false;             ///< Whether it can hold any pixels exactly.
};

/// A static object of this type registers the codec of `encoding`; it is the last statement of the codec's file.
/// `codec` must live as long as the program. An encoding that already has a codec keeps it: bug_error, unless
/// registrations are being observed (core/registry.h).
struct RegisteredCodec {
  RegisteredCodec(Encoding encoding, CodecTraits traits, const Codec& codec);
};

/// Throws corrupt_error for an encoding without a codec. O(1).
const Codec& codec_for(Encoding encoding);
const CodecTraits& codec_traits(Encoding encoding);

/// The extension of the file that Codec::file() gives, with its dot: .npy for rasters, which no PNG holds.
const std::string& file_extension(Encoding encoding, int channels);

/// Finds the encoding of a file by the codecs' signatures, never by its name. Throws corrupt_error, which names the
/// first bytes, when no signature fits.
Encoding detect_encoding(std::span<const uint8_t> bytes);

/// Whether `path` has the name of a picture: one of the codecs' extensions, in upper or lower case.
bool has_picture_extension(const std::filesystem::path& path);

}  // namespace penstock
