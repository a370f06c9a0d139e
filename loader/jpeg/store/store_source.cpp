// StoreSource: finds a group, decodes its DCs, calls a kernel for the rest, and applies exceptions.
#include "loader/jpeg/store/store_source.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

/// McuRun::rows of a block in which coefficient k is not 0 and none after it.
uint8_t rows_with(int k) { return static_cast<uint8_t>(k == 0 ? 0 : 1 + k / 8); }

/// Writes the exceptions of blocks [begin, end) over what the kernel has written.
void apply_exceptions(const uint8_t* at, int count, int begin, int end, const McuRun& run) {
  for (; count > 0; --count, at += kExceptionBytes) {
    const uint32_t bits = load<uint16_t>(at) | uint32_t{at[2]} << 16;
    const int block = bits & 127, k = bits >> 7 & 63;
    if (block < begin || block >= end) continue;
    const int sign = 1 << (kExceptionValueBits - 1);
    run.blocks[(block - begin) * kBlockSize + k] = static_cast<int16_t>((static_cast<int>(bits >> 13) ^ sign) - sign);
    run.rows[block - begin] = std::max(run.rows[block - begin], rows_with(k));
  }
}

void copy_raw_block(const uint8_t* from, int16_t* to, uint8_t& rows) {
  rows = 0;
  for (int k = 0; k < kBlockSize; ++k) {
    to[k] = load<int16_t>(from + 2 * k);
    if (to[k] != 0) rows = rows_with(k);
  }
}

}  // namespace

StoreSource::StoreSource(std::span<const uint8_t> bytes, const JpegGeometry& geometry, const Codebook& codebook,
                         StoreKernel kernel)
    : bytes_(bytes), layout_(geometry), tables_(&codebook.tables()), kernel_(kernel) {
  if (bytes.size() < layout_.groups_begin())
    throw corrupt_error(concat("coefficient store: ", bytes.size(), " bytes for ", layout_.mcu_rows, " rows of ",
                               layout_.row_groups, " groups; expected ", layout_.groups_begin(),
                               " or more, for their table"));
}

const uint8_t* StoreSource::with_slack(size_t begin, size_t length) {
  if (bytes_.size() - begin >= length + kStoreSlack) return bytes_.data() + begin;
  tail_.resize(std::max(tail_.size(), length + kStoreSlack));
  std::memcpy(tail_.data(), bytes_.data() + begin, length);
  std::memset(tail_.data() + length, 0, kStoreSlack);
  return tail_.data();
}

StoreSource::Group StoreSource::find(int mcu_row, int number) {
  if (next_row_ != mcu_row || next_group_ > number) {
    next_row_ = mcu_row, next_group_ = 0;
    next_begin_ = load<uint32_t>(&bytes_[size_t{4} * mcu_row]);
  }
  const uint8_t* lengths = &bytes_[layout_.lengths_begin() + size_t{2} * mcu_row * layout_.row_groups];
  for (; next_group_ < number; ++next_group_) next_begin_ += load<uint16_t>(lengths + 2 * next_group_);
  const size_t begin = next_begin_, length = load<uint16_t>(lengths + 2 * number);
  if (begin > bytes_.size() || length > bytes_.size() - begin)
    throw corrupt_error(concat("coefficient store: group ", number, " of MCU row ", mcu_row, " has bytes ", begin,
                               " to ", begin + length, "; expected them in the ", bytes_.size(), " of the picture"));
  next_begin_ += length, ++next_group_;
  return {{with_slack(begin, length), length}, mcu_row, number, layout_.group_blocks(number)};
}

void StoreSource::fail(const Group& group, size_t bits) const {
  throw corrupt_error(concat("coefficient store: group ", group.number, " of MCU row ", group.mcu_row, " needs ", bits,
                             " bits or more; expected its ", 8 * group.bytes.size(), " to be enough"));
}

void StoreSource::open(const Group& group, StoreJob& job) {
  const size_t head_bytes = layout_.head_bytes(group.block_count);
  if (group.bytes.size() < head_bytes) fail(group, 8 * head_bytes);
  const uint8_t* bytes = group.bytes.data();
  const uint8_t* entries = bytes + 1 + layout_.component_count;
  std::array<int, 4> chain{};
  for (int i = 0; i < layout_.component_count; ++i) chain[i] = static_cast<int8_t>(bytes[1 + i]) * kDcBaseStep;
  uint32_t bit = static_cast<uint32_t>(8 * head_bytes), counts = 0;
  for (int i = 0; i < group.block_count; ++i) {
    const int entry = layout_.entry_base[i] + entries[i];
    const auto& head = tables_->heads[entry];
    const uint32_t limit = 1u << head.dc_width;
    const uint32_t field = load<uint32_t>(bytes + bit / 8) >> bit % 8 & (limit - 1);
    int& dc = chain[layout_.component[i]];
    dc += static_cast<int>(field) - static_cast<int>(limit >> 1);
    entries_[i] = static_cast<uint16_t>(entry);
    dcs_[i] = static_cast<int16_t>(dc);
    bit += head.dc_width;
    counts += head.counts;
  }
  raw_count_ = static_cast<int>(counts >> 16);
  job.mask_bit = bit;
  job.value_bit = bit + (counts & 0xFFFF);
  const size_t tail_bytes = bytes[0] * kExceptionBytes + raw_count_ * kRawBytes;
  if (job.value_bit + 8 * tail_bytes > 8 * group.bytes.size()) fail(group, job.value_bit + 8 * tail_bytes);
  job.bit_end = static_cast<uint32_t>(8 * (group.bytes.size() - tail_bytes));
}

void StoreSource::read(int mcu_row, int begin, int end, const McuRun& run) {
  const Group group = find(mcu_row, begin / kGroupMcus);
  const int first_mcu = group.number * kGroupMcus;
  StoreJob job{.tables = tables_, .bytes = group.bytes.data(), .entries = entries_.data(), .dcs = dcs_.data()};
  job.begin = (begin - first_mcu) * layout_.mcu_blocks;
  job.end = (end - first_mcu) * layout_.mcu_blocks;
  job.blocks = run.blocks, job.rows = run.rows;
  open(group, job);
  if (!kernel_(job)) fail(group, job.bit_end + 1);
  const uint8_t* tail = group.bytes.data() + job.bit_end / 8;
  apply_exceptions(tail, group.bytes[0], job.begin, job.end, run);
  if (raw_count_ > 0) copy_raw_blocks(tail + group.bytes[0] * kExceptionBytes, job, run);
}

void StoreSource::copy_raw_blocks(const uint8_t* at, const StoreJob& job, const McuRun& run) const {
  for (int i = 0; i < job.end; ++i) {
    if (entries_[i] % kStoreEntries != kRawEntry) continue;
    if (i >= job.begin) copy_raw_block(at, run.blocks + (i - job.begin) * kBlockSize, run.rows[i - job.begin]);
    at += kRawBytes;
  }
}

}  // namespace penstock::detail
