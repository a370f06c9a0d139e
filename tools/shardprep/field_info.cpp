// print_fields(): one pass over the values of each field.
#include "tools/shardprep/field_info.h"

#include <algorithm>
#include <cstdio>
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

}  // namespace

void print_fields(const Dataset& dataset) {
  const auto& fields = dataset.manifest().fields;
  if (!fields.empty()) std::printf("  fields     %zu\n", fields.size());
  for (size_t number = 0; number < fields.size(); ++number) {
    const FieldType& type = fields[number];
    const bool is_number = type.kind == FieldKind::kNumber || type.kind == FieldKind::kLabels;
    NumberSums sums;
    uint64_t entry_count = 0;
    const auto read = number_reader(type.dtype);
    for (uint64_t index = 0; index < dataset.size(); ++index) {
      const HeldField stored = dataset.field(index, number);
      const FieldBytes bytes = stored.bytes;
      entry_count += bytes.size() / type.entry_bytes();
      if (!is_number) continue;
      for (size_t at = 0; at < bytes.size(); at += element_bytes(type.dtype)) sums.add(read(&bytes[at]));
    }
    std::string text = concat(field_kind_name(type.kind), " ", dtype_name(type.dtype), " ", shape_text(type.shape));
    if (!type.of.empty()) text += concat(" of ", type.of);
    if (type.is_variable()) text += concat(", ", entry_count, " in all, at most ", type.most, " of a sample");
    if (sums.count > 0)
      text += concat(", ", sums.least, " to ", sums.greatest, ", mean ", sums.sum / static_cast<double>(sums.count));
    std::printf("    %-24s %s\n", type.name.c_str(), text.c_str());
  }
}

}  // namespace penstock
