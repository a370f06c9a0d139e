// Codec: answers one question: the pixels of this region of this sample.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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
  int dct_scale = 8;  ///< 1, 2, 4 or 8 eighths; below 8 of JPEG alone.
  int channels = 3;   ///< 1 or 3: grey is replicated to RGB, RGB is never made grey.
  DecodePath path = DecodePath::kAuto;
};

/// Upper bound of height x width that a codec allocates for, pixels. A header that claims more is corrupt.
constexpr int64_t kMaxPixels = int64_t{1} << 28;

/// Decodes samples of one encoding.
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
};

const Codec& codec_for(Encoding encoding);

/// By content, never by file name: PNG's and JPEG's signatures. Throws corrupt_error naming the first bytes otherwise.
Encoding detect_encoding(std::span<const uint8_t> bytes);

}  // namespace penstock
