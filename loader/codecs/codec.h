// Codec: answers one question: the pixels of this region of this sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "augment/plan.h"
#include "augment/render.h"
#include "loader/shard.h"

namespace penstock {

/// Buffers that a worker keeps between samples, so that decoding allocates only when a picture is larger than all
/// before.
struct DecodeScratch {
  std::vector<uint8_t> pixels;
};

/// Upper bound of height x width that a codec allocates for, pixels. A header that claims more is corrupt.
constexpr int64_t kMaxPixels = int64_t{1} << 28;

/// Decodes samples of one encoding.
/// Errors: corrupt_error whose message states the fact only; the caller puts shard, sample and offset before it.
/// Thread-safety: const, no state; one DecodeScratch a thread.
class Codec {
 public:
  virtual ~Codec() = default;
  /// At least `region` of the picture, `channels` (1 or 3) a pixel: grey is replicated to RGB, RGB is never made grey.
  /// The result may cover more than was asked; it is valid until `scratch` is used again or the sample's map is gone.
  virtual Picture decode(const Sample& sample, const Region& region, int channels, DecodeScratch& scratch) const = 0;
  /// Extent from the header alone. channels is 1 or 3.
  virtual Extent probe(std::span<const uint8_t> bytes) const = 0;
};

const Codec& codec_for(Encoding encoding);

/// By content, never by file name: PNG's and JPEG's signatures. Throws corrupt_error naming the first bytes otherwise.
Encoding detect_encoding(std::span<const uint8_t> bytes);

}  // namespace penstock
