// FieldTable: the fields in one shard. FieldColumns: the same while it is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/temporary.h"
#include "loader/files/field.h"
#include "loader/files/safetensors.h"

namespace penstock::detail {

/// What tells the values of one field of one sample: CRC-32C of its bytes, then of the id as 8 bytes, little-endian, so
/// that values which have changed places are noticed.
uint32_t field_checksum(uint64_t id, FieldBytes bytes);

/// Views of the tensors of fields in a mapped shard. Thread-safety: immutable after construction.
class FieldTable {
 public:
  FieldTable() = default;
  /// `types`: the manifest's. Throws corrupt_error for a tensor that lacks, or has another dtype or shape, for offsets
  /// that do not ascend, and for a field that `types` does not have.
  FieldTable(const Safetensors& file, const std::vector<FieldType>& types, uint64_t sample_count);

  FieldBytes at(size_t row, size_t number) const;
  /// The most entries that a sample has of a variable field; 0 for another.
  uint64_t most_entries(size_t number) const;
  /// Calls `body` with each part of the file that at() reads for a row: values, offsets and checksums.
  template <class Body>
  void for_each_part(size_t row, const Body& body) const {
    const auto part = [&](const auto& span) {
      body(std::span(reinterpret_cast<const uint8_t*>(span.data()), span.size_bytes()));
    };
    for (size_t number = 0; number < entries_.size(); ++number) {
      if (!entries_[number].offsets.empty()) part(entries_[number].offsets.subspan(row, 2));
      part(at(row, number));
    }
    part(checksums_.subspan(row * entries_.size(), entries_.size()));
  }
  uint32_t checksum(size_t row, size_t number) const { return checksums_[row * entries_.size() + number]; }
  size_t count() const { return entries_.size(); }
  const std::string& name(size_t number) const { return entries_[number].name; }

 private:
  struct Entry {
    std::string name;
    uint64_t entry_bytes;
    FieldBytes bytes;
    std::span<const uint64_t> offsets;  // empty: one entry per row
  };
  std::vector<Entry> entries_;
  std::span<const uint32_t> checksums_;  // N x F
};

/// How many bytes of a header the tensors of `field_count` fields take at most: each has two entries of a name, a
/// dtype, up to 9 sizes and 2 offsets of up to 20 digits.
constexpr size_t field_header_bytes(size_t field_count) { return 2 * 384 * field_count; }

/// The fields of a shard that is being written. Memory: 12 bytes per sample and field, and what is not variable;
/// variable values lie in a file without a name until the shard is complete.
class FieldColumns {
 public:
  FieldColumns(const std::filesystem::path& folder, std::vector<FieldType> types);

  void add(uint64_t id, std::span<const FieldValue> values);  ///< One value per type.
  /// Views of variable values have no bytes: write() has them.
  void append_tensors(uint64_t sample_count, std::vector<TensorView>& tensors) const;
  void write(const TensorView& tensor, AtomicFile& file) const;

 private:
  struct Column {
    FieldType type;
    FieldValue values;                     // of a field that is not variable
    std::vector<uint64_t> offsets{0};      // in entries
    std::unique_ptr<UnnamedFile> spilled;  // of a variable one
  };
  std::vector<Column> columns_;
  std::vector<uint32_t> checksums_;
};

}  // namespace penstock::detail
