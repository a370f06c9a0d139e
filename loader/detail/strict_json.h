// Strict JSON: text that others wrote, parsed without trust.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Throws corrupt_error `<where>: ...` for a syntax error, a key that stands twice in one object, or nesting beyond
/// `max_depth` (1: an object of plain values).
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth);

/// `text` as JSON can hold it: what is not UTF-8 becomes U+FFFD.
std::string utf8_text(const std::string& text);

}  // namespace penstock::detail
