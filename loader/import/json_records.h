// for_each_record(): a large JSON file, record by record.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Calls `visit(key, record)` for each object in the arrays that are values of the root's keys, as COCO's "images" and
/// "annotations" are. All else is parsed and dropped. Memory: one record.
/// Errors: corrupt_error `<where>: ...` for a syntax error, a key that occurs twice in one object, and more than 16
/// levels.
void for_each_record(std::string_view text, const std::string& where,
                     const std::function<void(const std::string& key, const nlohmann::json& record)>& visit);

}  // namespace penstock::detail
