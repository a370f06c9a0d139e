// encode_store(): works group by group, with three passes over the blocks of a group: DC fields, masks, values.
#include "loader/jpeg/store_writer.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/bit_writer.h"
#include "loader/jpeg/block_fit.h"
#include "loader/jpeg/store_layout.h"

namespace penstock::detail {
namespace {

void put_number(std::vector<uint8_t>& bytes, size_t at, uint32_t value, int byte_count) {
  for (int i = 0; i < byte_count; ++i) bytes[at + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> 8 * i);
}

bool is_exceptional(int value) {
  return value >= -(1 << (kExceptionValueBits - 1)) && value < 1 << (kExceptionValueBits - 1);
}

class GroupWriter {
 public:
  GroupWriter(const StoreLayout& layout, const Codebook& codebook) : layout_(layout), tables_(codebook.tables()) {}

  /// Appends a group of `block_count` blocks.
  void write(const int16_t* blocks, int block_count, std::vector<uint8_t>& bytes) {
    blocks_ = blocks;
    exceptions_.clear();
    std::array<int8_t, 4> bases{};
    for (int i = layout_.mcu_blocks - 1; i >= 0; --i) bases[layout_.component[i]] = dc_base(blocks[i * kBlockSize]);
    for (int i = 0; i < layout_.component_count; ++i) chain_[i] = bases[i] * kDcBaseStep;
    for (int i = 0; i < block_count; ++i) choose(i);

    bytes.push_back(static_cast<uint8_t>(exceptions_.size()));
    for (int i = 0; i < layout_.component_count; ++i) bytes.push_back(static_cast<uint8_t>(bases[i]));
    for (int i = 0; i < block_count; ++i) bytes.push_back(static_cast<uint8_t>(entries_[i] % kStoreEntries));
    BitWriter bits(bytes);
    for (int i = 0; i < block_count; ++i)
      bits.put(dc_fields_[i], static_cast<int>(tables_.heads[entries_[i]].dc_width));
    for (int i = 0; i < block_count; ++i) put_mask(i, bits);
    for (int i = 0; i < block_count; ++i) put_values(i, bits);
    bits.finish();
    for (const uint32_t exception : exceptions_) {
      bytes.resize(bytes.size() + kExceptionBytes);
      put_number(bytes, bytes.size() - kExceptionBytes, exception, kExceptionBytes);
    }
    for (int i = 0; i < block_count; ++i)
      if (entries_[i] % kStoreEntries == kRawEntry) put_raw(i, bytes);
  }

 private:
  const int16_t* block(int i) const { return blocks_ + i * kBlockSize; }

  /// Chooses the entry, the DC field and the exceptions of block i.
  void choose(int i) {
    const int base = layout_.entry_base[i], which = base / kStoreEntries;
    int& chain = chain_[layout_.component[i]];
    needs_ = block_needs(block(i));
    needs_[0] = dc_need(block(i)[0] - chain);
    const BlockFit fit = best_fit(needs_, tables_.widths[which], tables_.base_bits[which], kTrainedEntries + 1);
    entries_[i] = static_cast<uint16_t>(base + fit.entry);
    dc_fields_[i] = 0;
    if (fit.bits > static_cast<int>(8 * kRawBytes) || !add_exceptions(i)) {
      entries_[i] = static_cast<uint16_t>(base + kRawEntry);
      return;
    }
    const int width = tables_.widths_of(entries_[i])[0], half = 1 << width >> 1;
    const int difference = width == 0 ? 0 : std::clamp(block(i)[0] - chain, -half, half - 1);
    dc_fields_[i] = static_cast<uint32_t>(difference + half);
    chain += difference;
  }

  /// Adds the exceptions of block i. Returns false and adds none when a value does not fit its bits or when the group
  /// would have too many.
  bool add_exceptions(int i) {
    const size_t count_before = exceptions_.size();
    const EntryWidths& widths = tables_.widths_of(entries_[i]);
    for (int k = 0; k < kBlockSize; ++k) {
      if (needs_[k] <= widths[k]) continue;
      const int value = block(i)[k];
      if (!is_exceptional(value) || exceptions_.size() == kMaxExceptions) {
        exceptions_.resize(count_before);
        return false;
      }
      const uint32_t bits = static_cast<uint32_t>(value) & ((1u << kExceptionValueBits) - 1);
      exceptions_.push_back(static_cast<uint32_t>(i) | static_cast<uint32_t>(k) << 7 | bits << 13);
    }
    return true;
  }

  void put_mask(int i, BitWriter& bits) const {
    const int count = tables_.heads[entries_[i]].mask_bits();
    for (int j = 0; j < count; ++j) bits.put(is_valued(i, tables_.order[entries_[i]][j]), 1);
  }

  void put_values(int i, BitWriter& bits) const {
    const int count = tables_.heads[entries_[i]].mask_bits();
    for (int j = 0; j < count; ++j) {
      const int k = tables_.order[entries_[i]][j];
      if (!is_valued(i, k)) continue;
      const int width = tables_.widths_of(entries_[i])[k], value = block(i)[k];
      bits.put(static_cast<uint32_t>(value + (1 << width >> 1) - (value > 0)), width);
    }
  }

  /// Whether the mask bit of coefficient k is set. For an exception it is not.
  bool is_valued(int i, int k) const {
    const int value = block(i)[k], limit = 1 << tables_.widths_of(entries_[i])[k] >> 1;
    return value != 0 && value >= -limit && value <= (limit == 1 << (kMaxWidth - 1) ? limit - 1 : limit);
  }

  void put_raw(int i, std::vector<uint8_t>& bytes) const {
    for (int k = 0; k < kBlockSize; ++k) {
      bytes.resize(bytes.size() + 2);
      put_number(bytes, bytes.size() - 2, static_cast<uint16_t>(block(i)[k]), 2);
    }
  }

  const StoreLayout& layout_;
  const CodebookTables& tables_;
  const int16_t* blocks_ = nullptr;
  BlockNeeds needs_;                                 // needs of the block that choose() is working on
  std::array<int, 4> chain_{};                       // one per component: the DC that the differences alone give
  std::array<uint16_t, kMaxGroupBlocks> entries_{};  // one per block: index in CodebookTables
  std::array<uint32_t, kMaxGroupBlocks> dc_fields_{};
  std::vector<uint32_t> exceptions_;
};

}  // namespace

std::vector<uint8_t> encode_store(const JpegGeometry& geometry, CoefficientSource& source, const Codebook& codebook) {
  const StoreLayout layout(geometry);
  GroupWriter writer(layout, codebook);
  GroupBlocks blocks;
  std::array<uint8_t, kMaxGroupBlocks> rows;
  std::vector<uint8_t> bytes(layout.groups_begin());
  size_t length_at = layout.lengths_begin();
  for (int row = 0; row < layout.mcu_rows; ++row) {
    if (bytes.size() > UINT32_MAX)
      throw config_error(
          concat("coefficient store: ", bytes.size(), " bytes at MCU row ", row, "; expected under 4 GiB"));
    put_number(bytes, size_t{4} * row, static_cast<uint32_t>(bytes.size()), 4);
    for (int group = 0; group < layout.row_groups; ++group, length_at += 2) {
      const int begin = group * kGroupMcus;
      source.read(row, begin, begin + layout.group_mcus(group), {blocks.coefficients.data(), rows.data()});
      const size_t group_begin = bytes.size();
      writer.write(blocks.coefficients.data(), layout.group_blocks(group), bytes);
      put_number(bytes, length_at, static_cast<uint32_t>(bytes.size() - group_begin), 2);
    }
  }
  return bytes;
}

}  // namespace penstock::detail
