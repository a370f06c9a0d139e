// sample_boxes: reads a field of boxes.
#include "loader/rows/sample_boxes.h"

#include <cstring>

#include "core/error.h"
#include "core/text.h"

namespace penstock {

std::optional<size_t> boxes_field(const Pipeline& pipeline, const Dataset& dataset) {
  const std::string& name = pipeline.boxes_field();
  if (name.empty()) return {};
  const size_t number = dataset.field_number(name);
  const FieldKind kind = dataset.manifest().fields[number].kind;
  if (kind == FieldKind::kBoxes) return number;
  throw config_error(concat(dataset.folder().string(), ": field ", in_quotes(name), " is of kind ",
                            field_kind_name(kind), "; expected boxes, for the transforms ", pipeline.text()));
}

std::vector<Box> boxes_of(const Dataset& dataset, uint64_t index, size_t field) {
  const HeldField stored = dataset.field(index, field);
  std::vector<Box> boxes(stored.bytes.size() / sizeof(Box));
  if (!boxes.empty()) std::memcpy(boxes.data(), stored.bytes.data(), boxes.size() * sizeof(Box));
  return boxes;
}

}  // namespace penstock
