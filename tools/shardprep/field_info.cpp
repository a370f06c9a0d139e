// print_fields(): one pass over the values of each field.
#include "tools/shardprep/field_info.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include "core/text.h"

namespace penstock {
namespace {

/// The range and the sum of all numbers of a field.
struct NumberSums {
  double least = std::numeric_limits<double>::infinity(), greatest = -least, sum = 0;
  uint64_t count = 0;

  void add(double value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    sum += value;
    ++count;
  }
};

template <class Number>
void add_all(FieldBytes bytes, NumberSums& sums) {
  for (size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
    Number value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    sums.add(static_cast<double>(value));
  }
}

/// False for what C++20 has no type for.
bool add_numbers(Dtype dtype, FieldBytes bytes, NumberSums& sums) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kU8:
      add_all<uint8_t>(bytes, sums);
      return true;
    case Dtype::kI8:
      add_all<int8_t>(bytes, sums);
      return true;
    case Dtype::kI16:
      add_all<int16_t>(bytes, sums);
      return true;
    case Dtype::kU16:
      add_all<uint16_t>(bytes, sums);
      return true;
    case Dtype::kI32:
      add_all<int32_t>(bytes, sums);
      return true;
    case Dtype::kU32:
      add_all<uint32_t>(bytes, sums);
      return true;
    case Dtype::kI64:
      add_all<int64_t>(bytes, sums);
      return true;
    case Dtype::kU64:
      add_all<uint64_t>(bytes, sums);
      return true;
    case Dtype::kF32:
      add_all<float>(bytes, sums);
      return true;
    case Dtype::kF64:
      add_all<double>(bytes, sums);
      return true;
    case Dtype::kF16:
    case Dtype::kBf16:
      break;
  }
  return false;
}

}  // namespace

void print_fields(const Dataset& dataset) {
  const auto& fields = dataset.manifest().fields;
  if (!fields.empty()) std::printf("  fields     %zu\n", fields.size());
  for (size_t number = 0; number < fields.size(); ++number) {
    const FieldType& type = fields[number];
    const bool is_number = type.kind == FieldKind::kNumber || type.kind == FieldKind::kLabels;
    NumberSums sums;
    uint64_t entry_count = 0;
    bool is_known = is_number;
    for (uint64_t index = 0; index < dataset.size(); ++index) {
      const FileHold held = dataset.hold(index);
      const FieldBytes bytes = dataset.field(index, number);
      entry_count += bytes.size() / type.entry_bytes();
      if (is_number) is_known = add_numbers(type.dtype, bytes, sums);
    }
    std::string text = concat(field_kind_name(type.kind), " ", dtype_name(type.dtype), " ", shape_text(type.shape));
    if (!type.of.empty()) text += concat(" of ", type.of);
    if (type.is_variable()) text += concat(", ", entry_count, " in all, at most ", type.most, " of a sample");
    if (is_known && sums.count > 0)
      text += concat(", ", sums.least, " to ", sums.greatest, ", mean ", sums.sum / static_cast<double>(sums.count));
    std::printf("    %-24s %s\n", type.name.c_str(), text.c_str());
  }
}

}  // namespace penstock
