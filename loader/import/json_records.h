// for_each_record(): a large JSON file, record by record.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Calls `visit(key, record)` for each object in the arrays that are values of those of the root's keys that are in
/// `keys`, as COCO's "images" and "annotations" are. All else is parsed and dropped. Memory: one record.
/// Errors: corrupt_error `<where>: ...` for a syntax error, a key that occurs twice in one object, more than 16 levels,
/// and for anything but a list of objects in one of `keys`.
void for_each_record(std::string_view text, const std::string& where, const std::set<std::string>& keys,
                     const std::function<void(const std::string& key, const nlohmann::json& record)>& visit);

}  // namespace penstock::detail
