// Field: names of kinds, and what a value must be.
#include "loader/files/field.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/bytes.h"
#include "core/error.h"
#include "core/strict_json.h"
#include "core/text.h"

namespace penstock {
namespace {

/// What fields of one kind have in common. Nothing: any.
struct KindRules {
  FieldKind kind;
  std::string_view name;
  std::optional<Dtype> dtype;
  std::string_view shape;  // for messages; empty: any
  bool (*has_shape)(const std::vector<int64_t>&);
};

bool any_shape(const std::vector<int64_t>&) { return true; }
bool is_list(const std::vector<int64_t>& shape) { return shape.size() == 1 && shape[0] == FieldType::kVariable; }
bool is_box_list(const std::vector<int64_t>& shape) {
  return shape.size() == 2 && shape[0] == FieldType::kVariable && shape[1] == 4;
}
bool is_point_list(const std::vector<int64_t>& shape) {
  return shape.size() == 3 && shape[0] == FieldType::kVariable && shape[1] > 0 && shape[2] == 3;
}

constexpr std::array<KindRules, 9> kKinds{
    {{FieldKind::kNumber, "number", {}, "", any_shape},
     {FieldKind::kText, "text", Dtype::kU8, "[-1]", is_list},
     {FieldKind::kBytes, "bytes", Dtype::kU8, "[-1]", is_list},
     {FieldKind::kLabels, "labels", Dtype::kI64, "[-1]", is_list},
     {FieldKind::kBoxes, "boxes", Dtype::kF32, "[-1, 4]", is_box_list},
     {FieldKind::kKeypoints, "keypoints", Dtype::kF32, "[-1, k, 3]", is_point_list},
     {FieldKind::kMask, "mask", Dtype::kU8, "[-1]", is_list},
     {FieldKind::kInstances, "instances", Dtype::kU8, "[-1]", is_list},
     {FieldKind::kPicture, "picture", Dtype::kU8, "[-1]", is_list}}};

const KindRules& rules_of(FieldKind kind) { return kKinds[static_cast<size_t>(kind)]; }

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxDimensions = 8;  // field_header_bytes() counts on it
constexpr uint64_t kMaxEntryBytes = uint64_t{1} << 31;

bool is_name(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kMaxNameBytes && is_plain(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_plain(c) || c == '_' || c == '-' || c == '.'; });
}

std::vector<float> floats_of(FieldBytes bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

/// "" or what is wrong with boxes in a picture of this size.
std::string box_problem(FieldBytes bytes, int height, int width) {
  constexpr float kSlack = 1;  // annotations are rounded: a box may end a pixel outside
  const auto values = floats_of(bytes);
  for (size_t i = 0; i + 4 <= values.size(); i += 4) {
    const float x0 = values[i], y0 = values[i + 1], x1 = values[i + 2], y1 = values[i + 3];
    const bool is_inside = x0 >= -kSlack && y0 >= -kSlack && x1 <= static_cast<float>(width) + kSlack &&
                           y1 <= static_cast<float>(height) + kSlack;  // false for a NaN
    if (is_inside && x0 <= x1 && y0 <= y1) continue;
    return concat("box ", i / 4, " is ", x0, ", ", y0, ", ", x1, ", ", y1,
                  "; expected x0 <= x1 and y0 <= y1, inside of ", width, " x ", height, " pixels (width x height)");
  }
  return "";
}

std::string keypoint_problem(FieldBytes bytes) {
  const auto values = floats_of(bytes);
  const auto wrong = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (wrong == values.end()) return "";
  return concat("number ", wrong - values.begin(), " is ", *wrong, "; expected finite numbers");
}

std::string label_problem(FieldBytes bytes, size_t name_count) {
  for (size_t at = 0; at + sizeof(int64_t) <= bytes.size(); at += sizeof(int64_t)) {
    int64_t label = 0;
    std::memcpy(&label, bytes.data() + at, sizeof label);
    if (label < 0 || static_cast<uint64_t>(label) >= name_count)
      return concat("label is ", label, "; expected 0 to ", name_count - 1, ", as it has ", name_count, " names");
  }
  return "";
}

std::string value_problem(const FieldType& type, FieldBytes bytes, int height, int width) {
  const uint64_t entry = type.entry_bytes();
  if (!type.is_variable() && bytes.size() != entry)
    return concat(bytes.size(), " bytes; expected ", entry, ", for ", dtype_name(type.dtype), " ",
                  shape_text(type.shape));
  if (type.is_variable() && bytes.size() % entry != 0)
    return concat(bytes.size(), " bytes; expected a multiple of ", entry, ", for ", dtype_name(type.dtype), " ",
                  shape_text(type.shape));
  const std::string_view text = as_text(bytes);
  if (type.kind == FieldKind::kText && detail::utf8_text(std::string(text)) != text)
    return "is no UTF-8; expected text";
  if (!type.names.empty()) return label_problem(bytes, type.names.size());
  if (type.kind == FieldKind::kBoxes) return box_problem(bytes, height, width);
  return type.kind == FieldKind::kKeypoints ? keypoint_problem(bytes) : "";
}

}  // namespace

uint64_t FieldType::element_count() const {
  uint64_t count = 1;
  for (size_t i = is_variable() ? 1 : 0; i < shape.size(); ++i) count *= static_cast<uint64_t>(shape[i]);
  return count;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(size == FieldType::kVariable ? "n" : std::to_string(size));
  return concat("[", join(sizes, ", "), "]");
}

std::string type_text(const FieldType& type) {
  return concat(in_quotes(type.name), ": ", field_kind_name(type.kind), " ", dtype_name(type.dtype), " ",
                shape_text(type.shape), type.of.empty() ? "" : concat(" of ", type.of));
}

std::string_view field_kind_name(FieldKind kind) { return rules_of(kind).name; }

std::optional<FieldKind> field_kind_of_name(std::string_view name) {
  for (const auto& rules : kKinds)
    if (rules.name == name) return rules.kind;
  return {};
}

bool is_in_pixels(FieldKind kind) {
  return kind == FieldKind::kBoxes || kind == FieldKind::kKeypoints || kind == FieldKind::kMask ||
         kind == FieldKind::kInstances;
}

void check_field_type(const FieldType& type, const std::string& where) {
  const std::string at = concat(where, ": field ", in_quotes(type.name), ": ");
  if (!is_name(type.name))
    throw config_error(concat(at, "expected a name of 1 to ", kMaxNameBytes, " of A-Z, a-z, 0-9, '_', '-' and '.', ",
                              "which begins with a letter or a digit"));
  if (type.shape.size() > kMaxDimensions)
    throw config_error(concat(at, "a shape of ", type.shape.size(), " dimensions; expected at most ", kMaxDimensions));
  uint64_t byte_count = element_bytes(type.dtype);
  for (size_t i = type.is_variable() ? 1 : 0; i < type.shape.size(); ++i) {
    const bool fits = type.shape[i] > 0 && !__builtin_mul_overflow(byte_count, type.shape[i], &byte_count) &&
                      byte_count <= kMaxEntryBytes;
    if (!fits)
      throw config_error(concat(at, "shape is ", shape_text(type.shape),
                                "; expected sizes of 1 or more, and at most 2 GiB for an entry"));
  }
  const auto& rules = rules_of(type.kind);
  if (rules.dtype && *rules.dtype != type.dtype)
    throw config_error(
        concat(at, "dtype is ", dtype_name(type.dtype), "; expected ", dtype_name(*rules.dtype), " for ", rules.name));
  if (!rules.has_shape(type.shape))
    throw config_error(
        concat(at, "shape is ", shape_text(type.shape), "; expected ", rules.shape, " for ", rules.name));
  const int64_t points = type.kind == FieldKind::kKeypoints ? type.shape[1] : 0;
  for (size_t i = 0; type.swapped && i < type.swapped->size(); ++i) {
    const auto& [a, b] = (*type.swapped)[i];
    if (a < 0 || b < 0 || a >= points || b >= points || a == b)
      throw config_error(concat(at, "key points ", a, " and ", b, " change places; expected two of 0 to ", points - 1));
  }
  if (!type.names.empty() && type.kind != FieldKind::kLabels)
    throw config_error(
        concat(at, "has ", type.names.size(), " names and is of kind ", rules.name, "; expected labels"));
  if (type.kind == FieldKind::kInstances && type.of.empty())
    throw config_error(concat(at, "\"of\" is missing; expected the boxes that the masks belong to"));
  if (!type.of.empty() && !type.is_variable())
    throw config_error(concat(at, "has \"of\" and the shape ", shape_text(type.shape), "; expected an entry per box"));
}

void check_field_value(const FieldType& type, FieldBytes bytes, int height, int width) {
  const std::string problem = value_problem(type, bytes, height, width);
  if (!problem.empty()) throw corrupt_error(concat("field ", in_quotes(type.name), ": ", problem));
}

}  // namespace penstock
