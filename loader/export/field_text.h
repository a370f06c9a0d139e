// json_of_value(): the value of a field as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "loader/files/field.h"

namespace penstock::detail {

/// Text as a string, one number as a number, everything else as lists of lists of numbers. Requires a kind that is no
/// file (bytes, mask, instances, picture). Throws config_error for a number that is not finite.
nlohmann::json json_of_value(const FieldType& type, FieldBytes bytes);

}  // namespace penstock::detail
