// PickedColumns: bytes looked up in registers. Written in Highway SIMD, compiled once for each instruction set; the
// best set is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/targets/picked_columns.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include <algorithm>

#include "augment/targets/picked_columns.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // has no vectors of 16 bytes
HWY_INLINE void pick_block(const PickedColumns::Block& block, const uint8_t* row, uint8_t* to) {
  for (size_t i = 0; i < PickedColumns::kAtOnce; ++i) to[i] = row[block.base + block.offsets[i]];
}
#else
HWY_INLINE void pick_block(const PickedColumns::Block& block, const uint8_t* row, uint8_t* to) {
  constexpr size_t kTableBytes = PickedColumns::kAtOnce;
  const hn::FixedTag<uint8_t, kTableBytes> tag;
  const auto offsets = hn::Load(tag, block.offsets.data());
  const auto in_table = hn::And(offsets, hn::Set(tag, static_cast<uint8_t>(kTableBytes - 1)));
  auto picked = hn::TableLookupBytes(hn::LoadU(tag, row + block.base), in_table);
  for (uint32_t table = 1; table < block.table_count; ++table) {
    const size_t begin = table * kTableBytes;
    const auto next = hn::TableLookupBytes(hn::LoadU(tag, row + block.base + begin), in_table);
    picked = hn::IfThenElse(hn::Gt(offsets, hn::Set(tag, static_cast<uint8_t>(begin - 1))), next, picked);
  }
  hn::StoreU(picked, tag, to);
}
#endif

/// Leaves out blocks without tables.
void pick_blocks(const PickedColumns::Block* blocks, size_t count, const uint8_t* row, uint8_t* to) {
  for (size_t b = 0; b < count; ++b)
    if (blocks[b].table_count > 0) pick_block(blocks[b], row, to + b * PickedColumns::kAtOnce);
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::detail {
namespace {

HWY_EXPORT(pick_blocks);

PickedColumns::Block block_of(const uint32_t* from, size_t row_bytes) {
  constexpr size_t kAtOnce = PickedColumns::kAtOnce;
  const auto [low, high] = std::minmax_element(from, from + kAtOnce);
  const size_t table_count = (*high - *low) / kAtOnce + 1, table_bytes = table_count * kAtOnce;
  if (table_count > PickedColumns::kMostTables || table_bytes > row_bytes) return {};
  PickedColumns::Block block{.base = std::min(*low, static_cast<uint32_t>(row_bytes - table_bytes)),
                             .table_count = static_cast<uint32_t>(table_count)};
  for (size_t i = 0; i < kAtOnce; ++i) block.offsets[i] = static_cast<uint8_t>(from[i] - block.base);
  return block;
}

}  // namespace

PickedColumns::PickedColumns(std::vector<uint32_t> from, size_t row_bytes) : from_(std::move(from)) {
  blocks_.reserve(from_.size() / kAtOnce);
  size_t i = 0;
  for (; i + kAtOnce <= from_.size(); i += kAtOnce) {
    blocks_.push_back(block_of(&from_[i], row_bytes));
    if (blocks_.back().table_count == 0) one_by_one_.push_back({i, i + kAtOnce});
  }
  one_by_one_.push_back({i, from_.size()});
}

void PickedColumns::pick(const uint8_t* row, uint8_t* to) const {
  HWY_DYNAMIC_DISPATCH(pick_blocks)(blocks_.data(), blocks_.size(), row, to);
  for (const auto& [begin, end] : one_by_one_)
    for (size_t i = begin; i < end; ++i) to[i] = row[from_[i]];
}

}  // namespace penstock::detail
#endif  // HWY_ONCE
