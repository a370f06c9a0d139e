// HuffmanSource: reads coefficients from the entropy-coded bytes of a JPEG. With a seek index it can start anywhere.
//
// Lives here: entropy-coded data to coefficients and back: baseline and progressive scans, seek indexes, and the JPEG
// file byte for byte again.
// Not here: pixels (pixels), and the form in which shards store coefficients (store).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/entropy/scan_reader.h"
#include "loader/jpeg/entropy/seek_index.h"

namespace penstock::detail {

/// Reads a scan that has all components (header.is_decodable()). With an index, a call costs the decoding of the MCUs
/// that it reads and of those between them and the point before them. Without an index it costs all MCUs since the last
/// call or, when it goes backwards, since the begin of the scan.
///
/// Memory: 145 KB in the object itself, of which most pictures use 60 KB. Keep it on the heap, and reuse it for the
/// next open(). open() takes 5 us, nearly all of it for the Huffman tables; less when these are equal to those of the
/// picture before.
///
/// Errors: corrupt_error for codes that the tables do not have, more than 64 coefficients in a block, a scan that is
/// cut off or has a marker inside, anything but EOI after the last MCU, and MCUs that do not end where the index says.
/// Only what is read is checked. Two kinds of damage are therefore not noticed: damage outside of the MCUs that are
/// read, and damage that gives other valid codes of the same length (about one flipped bit in three, namely in the bits
/// of values). The checksum of the sample detects both.
class HuffmanSource final : public CoefficientSource {
 public:
  HuffmanSource() = default;
  HuffmanSource(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes,
                std::optional<SeekIndex> index = std::nullopt) {
    open(header, geometry, bytes, index);
  }

  /// `bytes` are those of the whole JPEG. They and the bytes of the index must outlive all calls of read(). Requires
  /// header.is_decodable() and, with an index, a JPEG without restart markers.
  void open(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes,
            std::optional<SeekIndex> index);

  void read(int mcu_row, int begin, int end, const McuRun& run) override;

 private:
  void seek(int mcu_row, int begin, int end);
  void check_stop();

  ScanReader reader_;
  std::optional<SeekIndex> index_;
  size_t byte_count_ = 0;
  int mcu_columns_ = 0, mcu_rows_ = 0;
  // Used with an index: the point where reading stops, and its MCU. stop_mcu_ is -1 where there is no valid stop, as
  // before the first call.
  SeekIndex::Point stop_;
  int64_t stop_mcu_ = -1;
};

}  // namespace penstock::detail
