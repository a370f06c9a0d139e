// TarKinds: JSON, and the rules by which types found in files become those that were exported.
#include "loader/sources/tar_kinds.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_text.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/shards/manifest_fields.h"

namespace penstock::detail {
namespace {

bool is_same_name(const std::string& left, const std::string& right) {
  const auto lower = [](char letter) { return std::tolower(static_cast<unsigned char>(letter)); };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

/// Whether values have the same numbers: a size that differs between samples may be the same in the ones that are here.
bool holds_values_of(const FieldType& type, const FieldType& found) {
  if (type.dtype != found.dtype || type.shape.size() != found.shape.size()) return false;
  if (type.shape.empty()) return true;
  return std::equal(type.shape.begin() + 1, type.shape.end(), found.shape.begin() + 1) &&
         (type.is_variable() || type.shape[0] == found.shape[0]);
}

}  // namespace

std::string text_of_kinds(const TarKinds& kinds) {
  return json_text(
      nlohmann::ordered_json{{"class_names", kinds.class_names}, {"fields", json_of_fields(kinds.fields)}});
}

TarKinds kinds_of_text(std::string_view text, const std::string& where) {
  constexpr int kMaxDepth = 5;  // object, fields, field, pairs, pair
  const auto object = parse_strict_json(text, where, kMaxDepth);
  try {
    TarKinds kinds{object.at("class_names").get<std::vector<std::string>>(),
                   fields_of_json(object.at("fields"), where)};
    return kinds;
  } catch (const nlohmann::json::exception&) {
    throw corrupt_error(concat(where, ": is ", in_quotes(text), "; expected class_names and fields"));
  }
}

bool is_picture_by_kinds(const TarKinds& kinds, const std::string& ending) {
  const std::string name = ending.substr(0, ending.rfind('.'));
  return std::any_of(kinds.fields.begin(), kinds.fields.end(), [&](const FieldType& type) {
    return type.kind == FieldKind::kPicture && is_same_name(type.name, name);
  });
}

FieldType type_by_kinds(const TarKinds& kinds, const FieldType& found, const std::string& where) {
  const auto type = std::find_if(kinds.fields.begin(), kinds.fields.end(),
                                 [&](const FieldType& other) { return is_same_name(other.name, found.name); });
  if (type == kinds.fields.end()) return found;
  if (!holds_values_of(*type, found))
    throw corrupt_error(concat(where, ": field ", in_quotes(type->name), " is ", field_kind_name(type->kind), " of ",
                               dtype_name(type->dtype), " in ", kKindsMember, ", and its files are ",
                               field_kind_name(found.kind), " of ", dtype_name(found.dtype),
                               "; expected the same numbers in the same shape"));
  return *type;
}

}  // namespace penstock::detail
