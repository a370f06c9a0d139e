// Number texts.
#include "core/number_text.h"

#include <cstdio>

#include "core/text.h"

namespace penstock {

std::string count_text(int64_t count, std::string_view noun) { return concat(count, " ", noun, count == 1 ? "" : "s"); }

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
