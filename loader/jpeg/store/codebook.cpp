// Codebook: builds its tables, and reads and writes its bytes.
#include "loader/jpeg/store/codebook.h"

#include <algorithm>
#include <ios>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/sample.h"

namespace penstock::detail {
namespace {

EntryWidths safe_widths() {
  EntryWidths widths;
  widths.fill(kMaxRowBits / 8);
  widths[0] = kMaxDcWidth;
  return widths;
}

void fill_entry(CodebookTables& tables, int entry) {
  const EntryWidths& widths = tables.widths_of(entry);
  auto& head = tables.heads[entry];
  head = {.positions = 0, .dc_width = widths[0], .counts = 0};
  tables.order[entry].fill(0);
  for (int i = 1; i < kBlockSize; ++i) {
    if (widths[i] == 0) continue;
    tables.order[entry][head.counts++] = static_cast<uint8_t>(i);
    head.positions |= uint64_t{1} << i;
    tables.fields[entry][i / 8] |= ((uint64_t{1} << widths[i]) - 1) << i % 8 * 8;
    for (int bit = 0; bit < 4; ++bit) tables.width_bits[entry][bit] |= uint64_t{widths[i]} >> bit << 63 >> (63 - i);
  }
  if (entry % kStoreEntries == kRawEntry) head.counts += 1u << 16;
}

}  // namespace

bool valid_widths(const EntryWidths& widths) {
  if (widths[0] > kMaxDcWidth) return false;
  for (int row = 0; row < 8; ++row) {
    int row_bits = 0;
    for (int i = std::max(1, 8 * row); i < 8 * row + 8; ++i) {
      if (widths[i] > kMaxWidth) return false;
      row_bits += widths[i];
    }
    if (row_bits > kMaxRowBits) return false;
  }
  return true;
}

Codebook::Codebook(const std::array<ClassWidths, kStoreClasses>& widths) : tables_(std::make_unique<CodebookTables>()) {
  tables_->widths = widths;
  for (ClassWidths& entries : tables_->widths) {
    entries[kSafeEntry] = safe_widths();
    entries[kRawEntry].fill(0);
  }
  for (int entry = 0; entry < CodebookTables::kCount; ++entry) fill_entry(*tables_, entry);
}

Codebook Codebook::parse(std::span<const uint8_t> bytes) {
  if (bytes.size() != kByteCount)
    throw corrupt_error(concat("codebook has ", bytes.size(), " bytes; expected ", kByteCount));
  uint32_t stored = 0;
  for (size_t i = 0; i < 4; ++i) stored |= uint32_t{bytes[kByteCount - 4 + i]} << 8 * i;
  const uint32_t found = crc32c(bytes.first(kByteCount - 4));
  if (found != stored)
    throw corrupt_error(
        concat("codebook's crc32c is ", std::hex, found, ", it says ", stored, "; pack the data again"));
  auto widths = std::make_unique<std::array<ClassWidths, kStoreClasses>>();
  size_t at = 0;
  for (ClassWidths& entries : *widths) {
    for (int entry = 0; entry < kTrainedEntries; ++entry) {
      for (int i = 0; i < kBlockSize; i += 2, ++at) {
        entries[entry][i] = bytes[at] & 15;
        entries[entry][i + 1] = bytes[at] >> 4;
      }
      if (!valid_widths(entries[entry]))
        throw corrupt_error(concat("codebook's entry ", entry, " has too many bits; expected ", kMaxWidth,
                                   " or fewer per coefficient and ", kMaxRowBits, " per row"));
    }
  }
  return Codebook(*widths);
}

std::vector<uint8_t> Codebook::bytes() const {
  std::vector<uint8_t> bytes;
  bytes.reserve(kByteCount);
  for (const ClassWidths& entries : tables_->widths)
    for (int entry = 0; entry < kTrainedEntries; ++entry)
      for (int i = 0; i < kBlockSize; i += 2)
        bytes.push_back(static_cast<uint8_t>(entries[entry][i] | entries[entry][i + 1] << 4));
  const uint32_t checksum = crc32c(bytes);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<uint8_t>(checksum >> 8 * i));
  return bytes;
}

}  // namespace penstock::detail
