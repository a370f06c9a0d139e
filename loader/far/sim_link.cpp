// SimLink: the text of a link's speed.
#include "loader/far/sim_link.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/files.h"

namespace penstock {
namespace {

/// The number at the front of `text`, which is cut off; nothing for what is no number of 0 or more.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !(value >= 0) || value > 1e12) return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

double unit_of_rate(std::string_view text) {
  if (text == "kB/s") return 1e3;
  if (text == "MB/s") return 1e6;
  if (text == "GB/s") return 1e9;
  return 0;
}

}  // namespace

LinkSpeed parse_link_speed(const std::string& where, const std::string& text) {
  constexpr double kMostDelay_ms = 10'000;
  std::optional<double> delay_ms, bytes_per_second;
  std::string_view rest = text;
  bool is_good = true;
  while (is_good) {
    const auto number = take_number(rest);
    const size_t length = std::min(rest.find(','), rest.size());
    const std::string_view unit = rest.substr(0, length);
    auto& value = unit == "ms" ? delay_ms : bytes_per_second;
    is_good = number.has_value() && !value.has_value();
    if (is_good) value = unit == "ms" ? *number : *number * unit_of_rate(unit);
    if (length == rest.size()) break;
    rest.remove_prefix(length + 1);
  }
  if (is_good && bytes_per_second.value_or(0) >= 1e3 && delay_ms.value_or(0) <= kMostDelay_ms)
    return {delay_ms.value_or(0), *bytes_per_second};
  throw config_error(concat(where, " is ", in_quotes(text),
                            "; expected a delay and a rate as in 20ms,100MB/s (up to 10000ms, 1kB/s or more), or a ",
                            "rate as in 1GB/s"));
}

std::optional<LinkSpeed> sim_link() {
  const char* const text = std::getenv(kSimLinkVariable);
  if (text == nullptr || *text == '\0') return {};
  return parse_link_speed(concat(kSimLinkVariable, ":"), text);
}

std::string behind_sim_link(const std::string& where, const std::string& speed, const std::string& folder) {
  parse_link_speed(where, speed);
  if (!is_local(folder) && !folder.starts_with(kSimScheme))
    throw config_error(concat(where, " is ", in_quotes(speed), " with ", folder, "; expected a local data set"));
  // Threads of an earlier loader read the environment, so that it is not written without need.
  const char* const before = std::getenv(kSimLinkVariable);
  if (before == nullptr || speed != before) setenv(kSimLinkVariable, speed.c_str(), 1);
  return folder.starts_with(kSimScheme) ? folder : kSimScheme + folder;
}

}  // namespace penstock
