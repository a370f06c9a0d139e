// Field mismatch: types side by side.
#include "loader/shards/field_mismatch.h"

#include <algorithm>

#include "core/text.h"

namespace penstock::detail {
namespace {

bool may_be_one_field(const FieldType& type, const FieldType& other) {
  if (type.kind != other.kind || type.of != other.of) return false;
  if (!type.is_variable() && !other.is_variable()) return type.shape == other.shape;
  return type.shape.size() == other.shape.size() &&
         std::equal(type.shape.begin() + 1, type.shape.end(), other.shape.begin() + 1);
}

}  // namespace

std::string first_other_name(const std::vector<std::string>& names, const std::vector<std::string>& expected) {
  if (names == expected) return "";
  const auto first = static_cast<size_t>(
      std::mismatch(names.begin(), names.end(), expected.begin(), expected.end()).first - names.begin());
  const auto named = [&](const auto& list) { return first < list.size() ? in_quotes(list[first]) : "none"; };
  return concat(first, " is ", named(names), "; expected ", named(expected));
}

std::string field_mismatch(const std::filesystem::path& folder, const std::vector<FieldType>& fields,
                           const std::filesystem::path& other_folder, const std::vector<FieldType>& others) {
  for (const auto& field : fields) {
    const auto other =
        std::find_if(others.begin(), others.end(), [&](const auto& one) { return one.name == field.name; });
    if (other == others.end()) continue;
    if (!may_be_one_field(field, *other))
      return concat(folder.string(), ": field ", type_text(field), "; expected ", type_text(*other), ", as in ",
                    other_folder.string());
    if (const auto name = first_other_name(field.names, other->names); !name.empty())
      return concat(folder.string(), ": field ", in_quotes(field.name), ": label ", name, ", as in ",
                    other_folder.string());
  }
  return "";
}

}  // namespace penstock::detail
