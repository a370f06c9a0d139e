// ScanReader: reads or skips the MCUs of a scan one after the other, from its begin or from any known point.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"
#include "loader/jpeg/entropy/huffman_kernel.h"

namespace penstock::detail {

/// Bits are counted from the first byte of the JPEG, in each byte from the top, and stuffed zeros are counted too. The
/// position after 0xFF 0x00 is that of the next byte.
///
/// Memory: 145 KB, which the next open() reuses.
///
/// Errors: corrupt_error. After it only open(), rewind() and seek() may be called.
/// Thread-safety: none.
class ScanReader {
 public:
  ScanReader();

  /// Goes before the first MCU. `bytes` must outlive the use of the reader. Requires header.is_decodable(), and that
  /// `geometry` is that of the header.
  void open(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes);
  /// Goes back before the first MCU.
  void rewind();
  /// Goes before MCU `mcu`, which begins at `bit` with these predictors. Only MCUs before `stop_bit` may be read after
  /// that. Requires a scan without restart markers.
  void seek(int64_t mcu, uint64_t bit, uint64_t stop_bit, const DcPredictors& dc);

  void read(int mcu_count, const McuRun& run);
  /// Costs about a quarter less than reading.
  void skip(int64_t mcu_count);

  int64_t mcu() const { return mcu_; }  // the number of the next MCU, row by row
  const DcPredictors& dc() const { return dc_; }
  /// The number of bits read since open(), rewind() or seek(), without stuffed zeros. Requires a scan without restart
  /// markers.
  uint64_t bits_read() const;
  /// Whether everything up to stop_bit has been read, and nothing after it.
  bool is_at_stop();
  /// Throws unless fewer than 8 bits of the scan are left and EOI follows.
  void check_end();

 private:
  void start_segment(size_t begin, size_t stop);
  void next_segment();
  void fill();
  bool is_whole() const;      // whether nothing will be added to the window
  int64_t bits_left() const;  // bits in the window that have not been read
  void check_padding();
  int marker_at(size_t* end) const;  // the marker at next_byte_, or -1
  [[noreturn]] void fail(const char* fact);

  std::array<HuffmanTable, 4> dc_tables_, ac_tables_;
  McuTables tables_;
  std::span<const uint8_t> bytes_;
  size_t scan_begin_ = 0;
  int restart_interval_ = 0;
  int64_t mcu_ = 0;
  DcPredictors dc_{};

  // The window: bytes without stuffed zeros, followed by kBitPadding bytes.
  std::vector<uint8_t> window_;
  uint8_t* window_end_ = nullptr;
  BitPosition at_;
  uint64_t dropped_ = 0;     // number of bytes that were in the window before its first one
  size_t next_byte_ = 0;     // index in bytes_ of the first byte that is not yet in the window
  size_t stop_ = 0;          // index in bytes_ where the window must end
  uint64_t stop_bits_ = 0;   // number of bits of the last byte that are after the stop
  uint64_t first_bit_ = 0;   // bit of the window's first byte at which reading began
  bool has_marker_ = false;  // whether next_byte_ is at a marker, or at a 0xFF that is the last byte
};

}  // namespace penstock::detail
