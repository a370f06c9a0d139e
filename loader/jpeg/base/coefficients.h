// CoefficientSource: gives the quantised DCT coefficients of any MCUs of a picture, from a JPEG's scan or from the
// coefficient store.
#pragma once

#include <cstdint>

namespace penstock::detail {

/// Where the coefficients of up to kGroupMcus neighbouring MCUs of one MCU row are written. Block b of the i-th of
/// these MCUs has the number i * mcu_blocks + b.
struct McuRun {
  /// 64 quantised coefficients per block, row by row (not in zigzag order). 64-byte aligned.
  int16_t* blocks = nullptr;
  /// One entry per block: 0 when all coefficients except the DC are surely 0; otherwise 1 + the last row that may hold
  /// another value.
  uint8_t* rows = nullptr;
};

/// Errors: read() throws corrupt_error; the message does not name the file. Thread-safety: none; use one source per
/// thread.
class CoefficientSource {
 public:
  virtual ~CoefficientSource() = default;
  /// Writes every coefficient of the MCUs [begin, end) of MCU row `mcu_row`, zeros too. Requires 0 <= begin < end <=
  /// mcu_columns, and that the MCUs are in one group: begin / kGroupMcus == (end - 1) / kGroupMcus. Calls may come in
  /// any order; reading a row from left to right is the fast case.
  virtual void read(int mcu_row, int begin, int end, const McuRun& run) = 0;
};

}  // namespace penstock::detail
