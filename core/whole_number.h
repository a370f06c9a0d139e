// Whole numbers in a text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace penstock {

/// The number that the whole text is, such as "12" or "-3"; none for any other text, and beyond the range of an int.
inline std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace penstock
