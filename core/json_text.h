// JSON text: how everything here writes JSON.
#pragma once

#include <string>

namespace penstock {

/// The text of a nlohmann::json or ordered_json; with `indent` from 0 on, a line per value. Bytes that are not UTF-8,
/// as paths may hold, become U+FFFD: json.dump() alone throws for them.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace penstock
