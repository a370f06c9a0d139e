// Numbers and units in a text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace penstock {

/// The number at the front of `text`, such as 12 of "12ms", which is cut off; none, and the text stays, where there is
/// none, and beyond the range of `Number`. Decimal digits, with a `-` for signed ones; for floats also `1.5e3`, inf and
/// nan, or with std::chars_format::fixed no exponent.
template <class Number>
std::optional<Number> take_number(std::string_view& text, std::chars_format format = std::chars_format::general) {
  Number value{};
  const char* const end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<Number>)
    read = std::from_chars(text.data(), end, value, format);
  else
    read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  return value;
}

/// The number that the whole text is, such as "12" or "-3"; none for any other text, and beyond the range of `Number`.
template <class Number>
std::optional<Number> parse_number(std::string_view text, std::chars_format format = std::chars_format::general) {
  const auto value = take_number<Number>(text, format);
  return text.empty() ? value : std::nullopt;
}

/// Bytes of B, kB, MB, GB or TB (powers of 1000, in small or capital letters); 0 for any other text.
inline double bytes_of_unit(std::string_view unit) {
  const std::string_view letters = unit.size() == 2 ? unit.substr(1) : unit;
  if (letters != "B" && letters != "b") return 0;
  if (unit.size() == 1) return 1;
  switch (unit[0]) {
    case 'k':
    case 'K':
      return 1e3;
    case 'm':
    case 'M':
      return 1e6;
    case 'g':
    case 'G':
      return 1e9;
    case 't':
    case 'T':
      return 1e12;
    default:
      return 0;
  }
}

/// The same of bytes per second: B/s, kB/s or KB/s, MB/s, GB/s, TB/s. In small letters mb/s would be megabits to
/// others.
inline double bytes_of_rate(std::string_view unit) {
  const bool is_of_bytes = unit.ends_with("B/s") && unit.find_first_of("mgt") == std::string_view::npos;
  return is_of_bytes ? bytes_of_unit(unit.substr(0, unit.size() - 2)) : 0;
}

}  // namespace penstock
