// StoreSource: coefficients from the coefficient store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/codebook.h"
#include "loader/jpeg/coefficients.h"
#include "loader/jpeg/store_kernel.h"
#include "loader/jpeg/store_layout.h"

namespace penstock::detail {

/// Decodes blocks of the store's groups; store_format.h has the bytes. Nothing in them is trusted: a group that leads
/// outside of them is corrupt_error, and other changes give other coefficients, each an i16.
///
/// Memory: 0.6 KB, and up to 64 KB for pictures' last groups, kept. `bytes` and `codebook` must outlive it; nothing
/// outside `bytes` is read.
class StoreSource final : public CoefficientSource {
 public:
  /// Throws corrupt_error when `bytes` cannot hold the table of groups.
  StoreSource(std::span<const uint8_t> bytes, const JpegGeometry& geometry, const Codebook& codebook,
              StoreKernel kernel = best_store_kernel());
  void read(int mcu_row, int begin, int end, const McuRun& run) override;

 private:
  struct Group {
    std::span<const uint8_t> bytes;  // kStoreSlack bytes behind them may be read
    int mcu_row, number, block_count;
  };
  Group find(int mcu_row, int number);
  const uint8_t* with_slack(size_t begin, size_t length);
  /// Fills entries_, dcs_ and raw_count_, and says in `job` where the group's sections begin and its bits end.
  void open(const Group& group, StoreJob& job);
  void copy_raw_blocks(const uint8_t* at, const StoreJob& job, const McuRun& run) const;
  [[noreturn]] void fail(const Group& group, size_t bits) const;

  std::span<const uint8_t> bytes_;
  StoreLayout layout_;
  const CodebookTables* tables_;
  StoreKernel kernel_;
  int next_row_ = -1, next_group_ = 0;  // the group that begins at next_begin_
  size_t next_begin_ = 0;
  int raw_count_ = 0;  // of the group at hand
  std::array<uint16_t, kMaxGroupBlocks> entries_{};
  std::array<int16_t, kMaxGroupBlocks> dcs_{};
  std::vector<uint8_t> tail_;
};

}  // namespace penstock::detail
