// for_each_record() by nlohmann-json's callback, which drops what it has seen.
#include "loader/import/json_records.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/json_text.h"
#include "core/text.h"

namespace penstock::detail {

void for_each_record(std::string_view text, const std::string& where, const std::set<std::string>& keys,
                     const std::function<void(const std::string& key, const nlohmann::json& record)>& visit) {
  using Json = nlohmann::json;
  using Event = Json::parse_event_t;
  constexpr int kMaxDepth = 16, kRecordDepth = 2;
  std::vector<std::set<std::string>> open_objects;
  std::string root_key;
  bool is_record_array = false, is_object = false;
  const auto see = [&](int depth, Event event, Json& parsed) {
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth >= kMaxDepth)
      throw corrupt_error(concat(where, ": JSON nested deeper than ", kMaxDepth, "; expected ", kMaxDepth, " or less"));
    if (opens && depth == 0) is_object = event == Event::object_start;
    if (opens && depth == 1) is_record_array = event == Event::array_start;
    if (event == Event::object_start) open_objects.emplace_back();
    if (event == Event::object_end) open_objects.pop_back();
    if (event == Event::key) {
      auto key = parsed.get<std::string>();
      if (depth == 1) root_key = key;
      if (!open_objects.back().insert(std::move(key)).second)
        throw corrupt_error(concat(where, ": key ", shortened(parsed.dump()), " occurs twice; expected it once"));
    }
    const bool is_wanted = is_object && keys.contains(root_key);
    const bool begins_other =
        depth == 1 ? event == Event::object_start || event == Event::value
                   : depth == kRecordDepth && is_record_array && (event == Event::array_start || event == Event::value);
    if (is_wanted && begins_other) {
      const std::string found = event == Event::value         ? shortened(parsed.dump())
                                : event == Event::array_start ? "a list"
                                                              : "an object";
      throw corrupt_error(concat(where, ": ", in_quotes(root_key), depth == 1 ? " is " : " has ", found,
                                 "; expected a list of objects"));
    }
    if (event == Event::object_end && depth == kRecordDepth && is_record_array && is_wanted) visit(root_key, parsed);
    // What lies in a record stays until the record is seen; what lies beside records is not needed.
    const bool is_done = event == Event::object_end || event == Event::array_end || event == Event::value;
    return !is_done || depth > kRecordDepth || depth == 0;
  };
  try {
    const Json root = Json::parse(text, see);
    if (!is_object) throw corrupt_error(concat(where, ": no JSON object; expected one"));
  } catch (const Json::exception& error) {
    throw corrupt_error(concat(where, ": not JSON (", json_problem(error.what()), "); expected a JSON object"));
  }
}

}  // namespace penstock::detail
