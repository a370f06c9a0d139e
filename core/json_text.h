// JSON text: how everything here writes JSON.
#pragma once

#include <string>

#include "core/text.h"

namespace penstock {

/// The text of a nlohmann::json or ordered_json; with `indent` from 0 on, a line per value. Bytes that are not UTF-8,
/// as paths may hold, become U+FFFD: json.dump() alone throws for them.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

/// What nlohmann-json says of a text or a value, in plain words: its own texts begin with `[json.exception.`. With the
/// key or the number, where it names one.
inline std::string json_problem(const std::string& what) {
  const size_t bracket = what.starts_with("[json.exception.") ? what.find("] ") : std::string::npos;
  const std::string text = bracket == std::string::npos ? what : what.substr(bracket + 2);
  const size_t first = text.find('\''), last = text.rfind('\'');
  if (first >= last || last == std::string::npos) return shortened(text);
  const std::string named = text.substr(first + 1, last - first - 1);
  if (text.starts_with("key '")) return concat("has no key ", in_quotes(named));
  if (text.starts_with("number overflow")) return concat("has the number ", shortened(named), ", which is too large");
  return shortened(text);
}

}  // namespace penstock
