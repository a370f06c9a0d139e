// Strict JSON: text that others wrote, parsed without trust.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Throws corrupt_error `<where>: ...` for a syntax error, a key that occurs twice in one object, or nesting beyond
/// `max_depth` (1: an object of plain values).
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth);

/// Throws corrupt_error where brackets are nested deeper: nlohmann::json::dump() calls itself once for each of them.
void check_json_depth(std::string_view text, const std::string& where, int max_depth);

/// `text` in a form that JSON can hold: bytes that are not UTF-8 become U+FFFD.
std::string utf8_text(const std::string& text);

}  // namespace penstock::detail
