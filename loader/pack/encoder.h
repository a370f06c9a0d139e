// Encoder: what pack() stores of a picture, under its StorageOptions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loader/codecs/codec.h"
#include "loader/shards/storage.h"
#include "loader/sources/source.h"

namespace penstock::detail {

class Codebook;
class StoreWriter;
struct JpegHeader;

/// A picture as it goes into the shard.
struct Encoded {
  std::vector<uint8_t> bytes;
  Encoding encoding = Encoding::kRaw;
  Extent extent;
  uint8_t orientation = 1;
  uint8_t turned_by = 1;  // the orientation of the source's file, also where the pixels are upright already
  std::vector<uint8_t> seek_index = {};  // the seek index of a JPEG that can have one
  bool is_other_kind = false;            // the source's file has become pixels, or its PNG a JPEG
  bool is_transcoded = false;            // a JPEG that comes back with the same coefficients in other bytes
  bool is_warned = false;                // libjpeg-turbo warns about the header of the source's JPEG (JpegHeader)
};

/// Where unpack() is to write a picture: under the path it had, unless it has become another kind of file.
std::string stored_path(const std::string& path, const Encoded& encoded);

/// Determinism: the result depends only on options, codebook, id and picture.
/// Errors: corrupt_error, which states the fact but names no file.
/// Thread-safety: const; each thread uses a DecodeScratch of its own.
class Encoder {
 public:
  /// Without a codebook, no picture is stored as kCoefficients. `deep_error`: of a picture that SixteenBit::kRefuse
  /// refuses; kCorrupt lets packing leave it out as a broken one.
  Encoder(const StorageOptions& options, std::shared_ptr<const Codebook> codebook,
          ErrorKind deep_error = ErrorKind::kConfig);
  ~Encoder();

  /// A JPEG whose pixels are whole and which lacks its end marker, or has a byte 0 before it, comes back with its end
  /// mended, unless JPEGs may not be transcoded.
  Encoded encode(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const;
  /// The first half of encode(). It gives pixels, a PNG, or the JPEG whose coefficients or bytes are to be stored.
  Encoded prepare(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const;

 private:
  Encoded checked_jpeg(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const;
  Encoded stored(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const;
  Encoded checked_raw(Encoded&& picture) const;
  Encoded with_all_bits(Encoded&& picture, DecodeScratch& scratch) const;
  bool becomes_raw(uint64_t id) const;
  void flatten(Encoded& picture, DecodeScratch& scratch) const;
  void reshape(bool to_raw, Encoded& picture, DecodeScratch& scratch) const;
  void transcode(Encoded& picture) const;
  bool become_baseline(Encoded& picture) const;
  void store(Encoded& picture) const;
  bool store_coefficients(const JpegHeader& header, Encoded& picture) const;

  StorageOptions options_;
  ErrorKind deep_error_;
  std::shared_ptr<const Codebook> codebook_;   // shared with the shards' writers
  std::unique_ptr<const StoreWriter> writer_;  // null without a codebook
};

/// Trains the codebook for `source` on up to 256 of its pictures, evenly spread. `jobs` is the number of threads (0:
/// one per core) and changes nothing but the time. Returns null when none of these pictures is a JPEG whose
/// coefficients are to be stored. Broken pictures are ignored here.
std::shared_ptr<const Codebook> codebook_for(const Source& source, const StorageOptions& options, int jobs);

}  // namespace penstock::detail
