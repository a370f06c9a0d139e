// HuffmanSource: coefficients straight from a JPEG's own entropy-coded bytes, from anywhere when it has a seek index.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "loader/jpeg/coefficients.h"
#include "loader/jpeg/scan_reader.h"
#include "loader/jpeg/seek_index.h"

namespace penstock::detail {

/// Reads a scan with all components: header.is_decodable(). With an index a call costs the MCUs it reads and those
/// between them and the index's point before them; without one, all MCUs between the last call and this one, or, going
/// backwards, from the scan's begin.
///
/// Memory: 145 KB in the object itself (keep it on the heap, and for the next open()), of which most pictures touch 60.
/// open() takes 5 us, nearly all for the Huffman tables, and less when they are the last picture's.
///
/// Errors: corrupt_error: codes that the tables do not have, more than 64 coefficients, a scan that is cut off, a
/// marker inside of it, anything but EOI behind its last MCU, MCUs that do not end where the index says. Only what is
/// read is checked: damage outside of the MCUs asked for stays unseen, and damage that makes other valid codes of the
/// same length too (about one flipped bit in three, the value bits). The sample's checksum sees both.
class HuffmanSource final : public CoefficientSource {
 public:
  HuffmanSource() = default;
  HuffmanSource(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes,
                std::optional<SeekIndex> index = std::nullopt) {
    open(header, geometry, bytes, index);
  }

  /// The whole JPEG's bytes, and the index's, must outlive the calls of read(). Requires header.is_decodable(), and no
  /// restart markers with an index.
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
  // With an index: the point where reading stops, and its MCU. stop_mcu_ is -1 before the first call.
  SeekIndex::Point stop_;
  int64_t stop_mcu_ = -1;
};

}  // namespace penstock::detail
