// Strict JSON: refuses duplicate keys and deep nesting while nlohmann-json parses.
#include "loader/files/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/json_text.h"
#include "core/text.h"

namespace penstock::detail {

nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth) {
  using Json = nlohmann::json;
  std::vector<std::set<std::string>> open_objects;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= max_depth)
      throw corrupt_error(concat(where, ": JSON nested deeper than ", max_depth, "; expected ", max_depth, " or less"));
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second)
      throw corrupt_error(concat(where, ": key ", shortened(parsed.dump()), " occurs twice; expected it once"));
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    throw corrupt_error(concat(where, ": not JSON (", shortened(error.what()), "); expected a JSON object"));
  }
}

std::string utf8_text(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(json_text(Json(text))).get<std::string>();
}

}  // namespace penstock::detail
