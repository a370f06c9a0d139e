// ScanReader: reads or skips a scan's MCUs one after the other, from its begin or from any point that is known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/geometry.h"
#include "loader/jpeg/header.h"
#include "loader/jpeg/huffman_kernel.h"

namespace penstock::detail {

/// Bits are counted from the first of the JPEG's bytes, each byte's from the top, stuffed zeros included; a position
/// behind 0xFF 0x00 is that of the byte after them.
///
/// Memory: 145 KB, used again by the next open().
///
/// Errors: corrupt_error; then only open(), rewind() and seek() may follow. Thread-safety: none.
class ScanReader {
 public:
  ScanReader();

  /// Before the first MCU. `bytes` must outlive the reader's use. Requires header.is_decodable(), whose geometry this
  /// is.
  void open(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes);
  /// Back before the first MCU.
  void rewind();
  /// Before MCU `mcu`, which begins at `bit` with these predictors; the MCUs before `stop_bit` alone will be read.
  /// Requires a scan without restart markers.
  void seek(int64_t mcu, uint64_t bit, uint64_t stop_bit, const DcPredictors& dc);

  void read(int mcu_count, const McuRun& run);
  /// Cheaper than reading by about a quarter.
  void skip(int64_t mcu_count);

  int64_t mcu() const { return mcu_; }  // the next one, row by row
  const DcPredictors& dc() const { return dc_; }
  /// Bits read since open(), rewind() or seek(), without stuffed zeros. Not with restart markers.
  uint64_t bits_read() const;
  /// Whether all up to stop_bit has been read, and no more.
  bool is_at_stop();
  /// Throws unless fewer than 8 bits are left of the scan, and EOI follows.
  void check_end();

 private:
  void start_segment(size_t begin, size_t stop);
  void next_segment();
  void fill();
  bool is_whole() const;      // nothing will be added to the window
  int64_t bits_left() const;  // in the window
  void check_padding();
  int marker_at(size_t* end) const;  // at next_byte_; -1: none
  [[noreturn]] void fail(const char* fact);

  std::array<HuffmanTable, 4> dc_tables_, ac_tables_;
  McuTables tables_;
  std::span<const uint8_t> bytes_;
  size_t scan_begin_ = 0;
  int restart_interval_ = 0;
  int64_t mcu_ = 0;
  DcPredictors dc_{};

  // The window: bytes without stuffing, with kBitPadding behind them.
  std::vector<uint8_t> window_;
  uint8_t* window_end_ = nullptr;
  BitPosition at_;
  uint64_t dropped_ = 0;     // bytes that were in the window before its first
  size_t next_byte_ = 0;     // of bytes_, the first one that is not in the window
  size_t stop_ = 0;          // of bytes_, nothing from here on is taken
  uint64_t stop_bits_ = 0;   // behind the stop in the last byte
  uint64_t first_bit_ = 0;   // of the window's first byte, where the reading began
  bool has_marker_ = false;  // next_byte_ is that of a marker, or there is no byte after a last 0xFF
};

}  // namespace penstock::detail
