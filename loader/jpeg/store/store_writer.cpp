// StoreWriter: works group by group, with three passes over the blocks of a group: DC fields, masks, values.
#include "loader/jpeg/store/store_writer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/base/bit_writer.h"
#include "loader/jpeg/store/block_fit.h"
#include "loader/jpeg/store/store_layout.h"

namespace penstock::detail {

struct StoreWriter::Tables {
  Tables(const Codebook& given, ValueKernel kernel) : codebook(given.tables()), put_values(kernel) {
    for (int i = 0; i < kStoreClasses; ++i) fits[i].set(codebook.widths[i], kTrainedEntries + 1);
    for (int entry = 0; entry < CodebookTables::kCount; ++entry)
      for (int bit = 0; bit < codebook.heads[entry].mask_bits(); ++bit)
        mask_bits[entry][codebook.order[entry][bit]] = static_cast<uint8_t>(bit);
  }

  const CodebookTables& codebook;
  const ValueKernel put_values;
  std::array<FitTable, kStoreClasses> fits;
  // One row per entry: the mask's bit of each coefficient that has one, which is the inverse of CodebookTables::order.
  std::array<std::array<uint8_t, kBlockSize>, CodebookTables::kCount> mask_bits{};
};

namespace {

/// The most bytes that DC fields, masks and values of a group take, and 8 more for the BitWriter.
constexpr int kMaxBitBytes = kMaxGroupBlocks * (kMaxDcWidth + kBlockSize - 1 + 8 * kMaxRowBits) / 8 + 8;

void put_number(std::vector<uint8_t>& bytes, size_t at, uint32_t value, int byte_count) {
  for (int i = 0; i < byte_count; ++i) bytes[at + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> 8 * i);
}

bool is_exceptional(int value) {
  return value >= -(1 << (kExceptionValueBits - 1)) && value < 1 << (kExceptionValueBits - 1);
}

class GroupWriter {
 public:
  GroupWriter(const StoreLayout& layout, const StoreWriter::Tables& tables)
      : layout_(layout), codebook_(tables.codebook), tables_(tables) {}

  /// Appends a group of `block_count` blocks.
  void write(const int16_t* blocks, int block_count, std::vector<uint8_t>& bytes) {
    blocks_ = blocks;
    exceptions_.clear();
    values_ = BitWriter(value_bytes_.data());
    std::array<int8_t, 4> bases{};
    for (int i = layout_.mcu_blocks - 1; i >= 0; --i) bases[layout_.component[i]] = dc_base(blocks[i * kBlockSize]);
    for (int i = 0; i < layout_.component_count; ++i) chain_[i] = bases[i] * kDcBaseStep;
    for (int i = 0; i < block_count; ++i) choose(i);

    bytes.push_back(static_cast<uint8_t>(exceptions_.size()));
    for (int i = 0; i < layout_.component_count; ++i) bytes.push_back(static_cast<uint8_t>(bases[i]));
    for (int i = 0; i < block_count; ++i) bytes.push_back(static_cast<uint8_t>(entries_[i] % kStoreEntries));
    BitWriter bits(bits_.data());
    for (int i = 0; i < block_count; ++i)
      bits.put(dc_fields_[i], static_cast<int>(codebook_.heads[entries_[i]].dc_width));
    for (int i = 0; i < block_count; ++i) put_mask(i, bits);
    bits.put_all(value_bytes_.data(), values_.bits_since(value_bytes_.data()));
    bytes.insert(bytes.end(), bits_.data(), bits.finish());
    for (const uint32_t exception : exceptions_) {
      bytes.resize(bytes.size() + kExceptionBytes);
      put_number(bytes, bytes.size() - kExceptionBytes, exception, kExceptionBytes);
    }
    for (int i = 0; i < block_count; ++i)
      if (entries_[i] % kStoreEntries == kRawEntry) put_raw(i, bytes);
  }

 private:
  const int16_t* block(int i) const { return blocks_ + i * kBlockSize; }

  /// Chooses the entry, the DC field, the values and the exceptions of block i.
  void choose(int i) {
    const int base = layout_.entry_base[i];
    int& chain = chain_[layout_.component[i]];
    const BlockNeeds needs(block(i), block(i)[0] - chain);
    const BlockFit fit = tables_.fits[base / kStoreEntries].best(needs.list());
    entries_[i] = static_cast<uint16_t>(base + fit.entry);
    if (fit.bits > static_cast<int>(8 * kRawBytes) || !divide(i, needs)) {
      entries_[i] = static_cast<uint16_t>(base + kRawEntry);
      dc_fields_[i] = 0;
      masks_[i] = 0;
      return;
    }
    const int difference = block(i)[0] - chain, width = codebook_.widths_of(entries_[i])[0], half = 1 << width >> 1;
    if (needs.dc() <= width) {
      // A branch, which is nearly always taken: so the next block can be begun before this one's entry is known.
      chain = block(i)[0];
      dc_fields_[i] = static_cast<uint32_t>(difference + half);
    } else {
      const int nearest = width == 0 ? 0 : std::clamp(difference, -half, half - 1);
      chain += nearest;
      dc_fields_[i] = static_cast<uint32_t>(nearest + half);
    }
  }

  /// Writes the values of block i and notes its mask and its exceptions. Returns false when the exceptions cannot be
  /// stored.
  bool divide(int i, const BlockNeeds& needs) {
    const int entry = entries_[i];
    BitWriter writer = values_;
    const BlockPlaces places = tables_.put_values({.tables = &codebook_,
                                                   .entry = entry,
                                                   .block = block(i),
                                                   .needs = needs.ac_list(),
                                                   .mask_bits = tables_.mask_bits[entry].data()},
                                                  writer);
    const uint64_t exceptional = places.exceptional | uint64_t{needs.dc() > codebook_.widths_of(entry)[0]};
    if (exceptional != 0 && !add_exceptions(i, exceptional)) return false;
    masks_[i] = places.mask;
    values_ = writer;
    return true;
  }

  /// Adds the exceptions of block i, whose places are `exceptional`. Returns false and adds none when one does not fit
  /// its bits or when the group would have too many.
  bool add_exceptions(int i, uint64_t exceptional) {
    const size_t count_before = exceptions_.size();
    for (; exceptional != 0; exceptional &= exceptional - 1) {
      const int k = std::countr_zero(exceptional), value = block(i)[k];
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
    const int count = codebook_.heads[entries_[i]].mask_bits();
    bits.put(static_cast<uint32_t>(masks_[i]), std::min(count, 32));
    bits.put(static_cast<uint32_t>(masks_[i] >> 32), std::max(count - 32, 0));
  }

  void put_raw(int i, std::vector<uint8_t>& bytes) const {
    for (int k = 0; k < kBlockSize; ++k) {
      bytes.resize(bytes.size() + 2);
      put_number(bytes, bytes.size() - 2, static_cast<uint16_t>(block(i)[k]), 2);
    }
  }

  const StoreLayout& layout_;
  const CodebookTables& codebook_;
  const StoreWriter::Tables& tables_;
  const int16_t* blocks_ = nullptr;
  std::array<int, 4> chain_{};                       // one per component: the DC that the differences alone give
  std::array<uint16_t, kMaxGroupBlocks> entries_{};  // one per block: index in CodebookTables
  std::array<uint32_t, kMaxGroupBlocks> dc_fields_{};
  std::array<uint64_t, kMaxGroupBlocks> masks_{};  // one per block: its mask, as the store has it
  std::vector<uint32_t> exceptions_;
  std::array<uint8_t, kMaxBitBytes> bits_, value_bytes_;
  BitWriter values_{value_bytes_.data()};
};

}  // namespace

StoreWriter::StoreWriter(const Codebook& codebook, ValueKernel kernel)
    : tables_(std::make_unique<const Tables>(codebook, kernel)) {}

StoreWriter::~StoreWriter() = default;

std::vector<uint8_t> StoreWriter::write(const JpegGeometry& geometry, CoefficientSource& source) const {
  const StoreLayout layout(geometry);
  GroupWriter writer(layout, *tables_);
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
