// Encoder: what pack() stores of a picture, under its StorageOptions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "loader/codecs/codec.h"
#include "loader/sources/source.h"
#include "loader/storage.h"

namespace penstock::detail {

class Codebook;
struct JpegHeader;

/// A picture as it goes into the shard.
struct Encoded {
  std::vector<uint8_t> bytes;
  Encoding encoding = Encoding::kRaw;
  Extent extent;
  uint8_t orientation = 1;
  std::vector<uint8_t> index;  // of a JPEG, where it can be sought in
  bool is_other_kind = false;  // pixels of what was a file, or a JPEG of what was a PNG
  bool is_transcoded = false;  // a JPEG that comes back with the same coefficients in other bytes
};

/// Determinism: depends on options, codebook, id and picture alone. Errors: corrupt_error with the fact alone.
/// Thread-safety: const, with one DecodeScratch a thread.
class Encoder {
 public:
  /// Without a codebook nothing becomes kCoefficients.
  Encoder(const StorageOptions& options, std::shared_ptr<const Codebook> codebook);
  ~Encoder();

  Encoded encode(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const;
  /// The first half of encode(): pixels, PNG, or the JPEG whose coefficients or bytes are to be stored.
  Encoded prepare(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const;

 private:
  bool becomes_raw(uint64_t id) const;
  void reshape(bool to_raw, Encoded& picture, DecodeScratch& scratch) const;
  void transcode(Encoded& picture) const;
  void store(Encoded& picture) const;
  bool store_coefficients(const JpegHeader& header, Encoded& picture) const;

  StorageOptions options_;
  std::shared_ptr<const Codebook> codebook_;  // shared with the shards' writers
};

/// Trains the codebook that suits `source`: from up to 256 of its pictures, evenly spread; `jobs` threads (0: one a
/// core) change nothing but the time. Null when none of them is a JPEG whose coefficients are to be stored. Broken
/// pictures are passed over here.
std::shared_ptr<const Codebook> codebook_for(const Source& source, const StorageOptions& options, int jobs);

}  // namespace penstock::detail
