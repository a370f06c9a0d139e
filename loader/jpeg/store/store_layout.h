// StoreLayout: the groups of a picture, and the component of each block in a group.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/store_format.h"

namespace penstock::detail {

struct StoreLayout {
  /// Throws corrupt_error when an MCU has more blocks than a scan may have.
  explicit StoreLayout(const JpegGeometry& geometry)
      : component_count(geometry.component_count),
        mcu_blocks(geometry.mcu_blocks),
        mcu_columns(geometry.mcu_columns),
        mcu_rows(geometry.mcu_rows),
        row_groups((geometry.mcu_columns + kGroupMcus - 1) / kGroupMcus) {
    if (mcu_blocks > kMaxMcuBlocks)
      throw corrupt_error(concat("coefficient store: ", mcu_blocks, " blocks in an MCU; ", kMaxMcuBlocks, " at most"));
    for (int i = 0; i < component_count; ++i) {
      const auto& part = geometry.components[i];
      for (int k = part.first_block; k < part.first_block + part.h * part.v; ++k) {
        component[k] = static_cast<uint8_t>(i);
        entry_base[k] = static_cast<uint16_t>(store_class(component_count, i) * kStoreEntries);
      }
    }
    for (int k = mcu_blocks; k < kGroupMcus * mcu_blocks; ++k) {
      component[k] = component[k - mcu_blocks];
      entry_base[k] = entry_base[k - mcu_blocks];
    }
  }

  int group_mcus(int group) const { return std::min(kGroupMcus, mcu_columns - group * kGroupMcus); }
  int group_blocks(int group) const { return group_mcus(group) * mcu_blocks; }
  /// The number of bytes of a group before its bits.
  size_t head_bytes(int block_count) const { return static_cast<size_t>(1 + component_count + block_count); }
  /// Positions in the store of a picture: where the lengths of groups begin, and where the first group begins.
  size_t lengths_begin() const { return size_t{4} * mcu_rows; }
  size_t groups_begin() const { return lengths_begin() + size_t{2} * mcu_rows * row_groups; }

  int component_count, mcu_blocks, mcu_columns, mcu_rows, row_groups;
  /// One entry per block of a group.
  std::array<uint8_t, kMaxGroupBlocks> component{};
  std::array<uint16_t, kMaxGroupBlocks> entry_base{};  // the index in CodebookTables of entry 0 of the block's class
};

/// The coefficients of a group, block after block.
struct alignas(64) GroupBlocks {
  std::array<int16_t, kMaxGroupBlocks * kBlockSize> coefficients;
};

/// The DC base of a component whose first DC in a group is `dc`: dc / 8, rounded and clamped to what the group's head
/// can hold.
constexpr int8_t dc_base(int dc) {
  return static_cast<int8_t>(std::clamp((dc + (dc < 0 ? -kDcBaseStep / 2 : kDcBaseStep / 2)) / kDcBaseStep, -128, 127));
}

}  // namespace penstock::detail
