// CoefficientSource: the quantised DCT coefficients of any MCUs of a picture, wherever they come from.
#pragma once

#include <cstdint>

namespace penstock::detail {

/// Up to kGroupMcus neighbouring MCUs of one MCU row. Block b of the i-th MCU is number i * mcu_blocks + b.
struct McuRun {
  /// 64 a block, row by row (no zigzag), quantised; 64-byte aligned.
  int16_t* blocks = nullptr;
  /// A block: 0 when no coefficient but the DC can be other than 0; otherwise 1 + the last row that can hold one.
  uint8_t* rows = nullptr;
};

/// Errors: read() throws corrupt_error with the fact alone. Thread-safety: none; one a thread.
class CoefficientSource {
 public:
  virtual ~CoefficientSource() = default;
  /// Writes every coefficient of MCUs [begin, end) of MCU row `mcu_row`, zeros too. Requires 0 <= begin < end <=
  /// mcu_columns, and that both lie in one group: begin / kGroupMcus == (end - 1) / kGroupMcus. Any order of calls is
  /// allowed; ascending calls in a row are the fast case.
  virtual void read(int mcu_row, int begin, int end, const McuRun& run) = 0;
};

}  // namespace penstock::detail
