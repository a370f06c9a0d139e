// Formats numbers, counts, bytes, percentages and factors as text.
#include "core/number_text.h"

#include <cstdarg>
#include <cstdio>

namespace penstock {

std::string printed(const char* format, ...) {
  char text[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string count_text(uint64_t count, std::string_view noun, std::string_view plural) {
  const std::string one_noun(noun);
  if (count == 1) return grouped(count) + " " + one_noun;
  return grouped(count) + " " + (plural.empty() ? one_noun + "s" : std::string(plural));
}

std::string byte_text(uint64_t byte_count) {
  const char* units[] = {"bytes", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(byte_count);
  size_t unit = 0;
  for (; value >= (unit == 0 ? 1000 : 999.95) && unit < 4; ++unit) value /= 1000;
  return printed("%.*f %s", unit == 0 ? 0 : 1, value, units[unit]);
}

std::string seconds_text(double seconds) { return printed("%.1f s", seconds); }

std::string ms_text(double ms) { return printed("%.1f ms", ms); }

std::string percent_text(double share, int digits) { return printed("%.*f %%", digits, 100 * share); }

std::string factor_text(double factor) { return printed("%.*fx", factor < 1.2 ? 2 : factor < 10 ? 1 : 0, factor); }

}  // namespace penstock
