// The key `fields` of a manifest.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "loader/files/field.h"

namespace penstock::detail {

/// `object`: name -> what docs/FORMAT.md says. The result is sorted by name. Throws corrupt_error naming `where`, the
/// field and the key, also for a type that check_field_type() refuses and an `of` that names no field of boxes or key
/// points.
std::vector<FieldType> fields_of_json(const nlohmann::json& object, const std::string& where);
nlohmann::ordered_json json_of_fields(const std::vector<FieldType>& fields);

/// Sorts by name. Throws config_error `<where>: ...` for what no manifest can have: a bad type, a name that occurs
/// twice, an `of` that names no field of boxes or key points.
std::vector<FieldType> checked_fields(std::vector<FieldType> fields, const std::string& where);

}  // namespace penstock::detail
