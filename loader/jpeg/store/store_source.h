// StoreSource: reads coefficients from the coefficient store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/store_kernel.h"
#include "loader/jpeg/store/store_layout.h"

namespace penstock::detail {

/// Decodes blocks of the store's groups, whose bytes are described in store_format.h. Nothing in these bytes is
/// trusted: a group that reaches beyond them is a corrupt_error, and any other damage gives other coefficients, each of
/// them an i16.
///
/// Memory: 0.6 KB, plus a buffer of up to 64 KB for the last groups of a picture, which is kept. `bytes` and `codebook`
/// must outlive the source. Nothing outside of `bytes` is read.
class StoreSource final : public CoefficientSource {
 public:
  /// Throws corrupt_error when `bytes` are too short for the table of groups.
  StoreSource(std::span<const uint8_t> bytes, const JpegGeometry& geometry, const Codebook& codebook,
              StoreKernel kernel = best_store_kernel());
  void read(int mcu_row, int begin, int end, const McuRun& run) override;

 private:
  struct Group {
    std::span<const uint8_t> bytes;  // kStoreSlack bytes after them may be read too
    int mcu_row, number, block_count;
  };
  Group find(int mcu_row, int number);
  const uint8_t* with_slack(size_t begin, size_t length);
  /// Fills entries_, dcs_ and raw_count_, and sets in `job` where the sections of the group begin and where its bits
  /// end.
  void open(const Group& group, StoreJob& job);
  void copy_raw_blocks(const uint8_t* at, const StoreJob& job, const McuRun& run) const;
  [[noreturn]] void fail(const Group& group, size_t bits) const;

  std::span<const uint8_t> bytes_;
  StoreLayout layout_;
  const CodebookTables* tables_;
  StoreKernel kernel_;
  int next_row_ = -1, next_group_ = 0;  // row and number of the group that begins at next_begin_
  size_t next_begin_ = 0;
  int raw_count_ = 0;  // number of blocks of entry 255 in the group of the last open()
  std::array<uint16_t, kMaxGroupBlocks> entries_{};
  std::array<int16_t, kMaxGroupBlocks> dcs_{};
  std::vector<uint8_t> tail_;
};

}  // namespace penstock::detail
