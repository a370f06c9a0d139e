// Formats numbers, counts, bytes, percentages and factors as text.
#include "core/number_text.h"

#include <cstdio>

#include "core/concat.h"

namespace penstock {

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string count_text(uint64_t count, std::string_view noun, std::string_view plural) {
  if (count == 1 || plural.empty()) return concat(grouped(count), " ", noun, count == 1 ? "" : "s");
  return concat(grouped(count), " ", plural);
}

std::string byte_text(uint64_t byte_count) {
  const char* units[] = {"bytes", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(byte_count);
  size_t unit = 0;
  for (; value >= (unit == 0 ? 1000 : 999.95) && unit < 4; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

std::string percent_text(double share, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %%", digits, 100 * share);
  return text;
}

std::string factor_text(double factor) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*fx", factor < 1.2 ? 2 : factor < 10 ? 1 : 0, factor);
  return text;
}

}  // namespace penstock
