// FieldTable, FieldColumns: tensors `field.<name>`, of variable fields with `field_offset.<name>`, and `field_crc32c`.
#include "loader/shards/field_table.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/files/sample.h"

namespace penstock::detail {
namespace {

constexpr const char* kPrefix = "field.";
constexpr const char* kOffsetPrefix = "field_offset.";
constexpr const char* kChecksums = "field_crc32c";

/// The shape of the tensor of `count` samples or, of a variable field, entries.
std::vector<uint64_t> tensor_shape(const FieldType& type, uint64_t count) {
  std::vector<uint64_t> shape{count};
  for (size_t i = type.is_variable() ? 1 : 0; i < type.shape.size(); ++i)
    shape.push_back(static_cast<uint64_t>(type.shape[i]));
  return shape;
}

template <class Element>
std::span<const Element> elements_of(const Safetensors& file, const TensorView& tensor) {
  if (tensor.byte_offset % sizeof(Element) != 0)
    throw corrupt_error(concat(file.path().string(), ": tensor ", in_quotes(tensor.name), " begins at byte ",
                               tensor.byte_offset, "; expected a multiple of ", sizeof(Element)));
  return {reinterpret_cast<const Element*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(Element)};
}

std::span<const uint64_t> offsets_of(const Safetensors& file, const FieldType& type, uint64_t sample_count,
                                     uint64_t entry_count) {
  const std::string name = kOffsetPrefix + type.name;
  const auto offsets = elements_of<uint64_t>(file, file.get(name, "U64", {sample_count + 1}));
  const bool ascends = std::is_sorted(offsets.begin(), offsets.end());
  if (!ascends || offsets.front() != 0 || offsets.back() != entry_count)
    throw corrupt_error(concat(file.path().string(), ": tensor ", in_quotes(name), " runs from ", offsets.front(),
                               " to ", offsets.back(), "; expected ascending offsets from 0 to ", entry_count));
  return offsets;
}

}  // namespace

uint32_t field_checksum(uint64_t id, FieldBytes bytes) {
  std::array<uint8_t, 8> text{};
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<uint8_t>(id >> (8 * i));
  return crc32c(text, crc32c(bytes));
}

FieldTable::FieldTable(const Safetensors& file, const std::vector<FieldType>& types, uint64_t sample_count) {
  for (const auto& tensor : file.tensors()) {
    const auto has_name = [&](const FieldType& type) { return kPrefix + type.name == tensor.name; };
    if (tensor.name.starts_with(kPrefix) && std::none_of(types.begin(), types.end(), has_name))
      throw corrupt_error(concat(file.path().string(), ": tensor ", in_quotes(tensor.name),
                                 " is of no field; expected those that the manifest has"));
  }
  if (types.empty()) return;
  checksums_ = elements_of<uint32_t>(file, file.get(kChecksums, "U32", {sample_count, types.size()}));
  for (const auto& type : types) {
    const uint64_t count = type.is_variable() ? Safetensors::kAny : sample_count;
    const auto& tensor = file.get(kPrefix + type.name, std::string(dtype_name(type.dtype)), tensor_shape(type, count));
    entries_.push_back({type.name, type.entry_bytes(), tensor.bytes, {}});
    if (type.is_variable()) entries_.back().offsets = offsets_of(file, type, sample_count, tensor.shape[0]);
  }
}

FieldBytes FieldTable::at(size_t row, size_t number) const {
  const auto& entry = entries_[number];
  if (entry.offsets.empty()) return entry.bytes.subspan(row * entry.entry_bytes, entry.entry_bytes);
  const uint64_t begin = entry.offsets[row] * entry.entry_bytes, end = entry.offsets[row + 1] * entry.entry_bytes;
  if (begin > end || end > entry.bytes.size()) return {};  // zeros in place of a page; the checksum reports it
  return entry.bytes.subspan(begin, end - begin);
}

uint64_t FieldTable::most_entries(size_t number) const {
  const auto& offsets = entries_[number].offsets;
  uint64_t most = 0;
  for (size_t row = 0; row + 1 < offsets.size(); ++row)
    if (offsets[row + 1] > offsets[row]) most = std::max(most, offsets[row + 1] - offsets[row]);
  return most;
}

FieldColumns::FieldColumns(const std::filesystem::path& folder, std::vector<FieldType> types) {
  for (auto& type : types) {
    auto& column = columns_.emplace_back();
    column.type = std::move(type);
    if (column.type.is_variable())
      column.spilled = std::make_unique<UnnamedFile>(folder, "fields before they are packed");
  }
}

void FieldColumns::add(uint64_t id, std::span<const FieldValue> values) {
  if (values.size() != columns_.size())
    throw bug_error(concat("id ", id, ": ", values.size(), " fields; expected ", columns_.size()));
  for (size_t i = 0; i < columns_.size(); ++i) {
    auto& column = columns_[i];
    checksums_.push_back(field_checksum(id, values[i]));
    if (!column.spilled) {
      column.values.insert(column.values.end(), values[i].begin(), values[i].end());
      continue;
    }
    column.spilled->append(values[i]);
    column.offsets.push_back(column.offsets.back() + values[i].size() / column.type.entry_bytes());
  }
}

void FieldColumns::append_tensors(uint64_t sample_count, std::vector<TensorView>& tensors) const {
  if (columns_.empty()) return;
  tensors.push_back({kChecksums, "U32", {sample_count, columns_.size()}, as_bytes(checksums_)});
  for (const auto& column : columns_) {
    const std::string dtype(dtype_name(column.type.dtype));
    const uint64_t count = column.spilled ? column.offsets.back() : sample_count;
    tensors.push_back({kPrefix + column.type.name, dtype, tensor_shape(column.type, count), column.values});
    if (column.spilled)
      tensors.push_back({kOffsetPrefix + column.type.name, "U64", {sample_count + 1}, as_bytes(column.offsets)});
  }
}

void FieldColumns::write(const TensorView& tensor, AtomicFile& file) const {
  const auto has_name = [&](const Column& column) {
    return column.spilled && tensor.name == kPrefix + column.type.name;
  };
  const auto found = std::find_if(columns_.begin(), columns_.end(), has_name);
  if (found == columns_.end()) return file.write(tensor.bytes);
  std::vector<uint8_t> piece(size_t{1} << 20);
  for (uint64_t at = 0; at < found->spilled->byte_count(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), found->spilled->byte_count() - at));
    found->spilled->read(at, piece);
    file.write(piece);
  }
}

}  // namespace penstock::detail
