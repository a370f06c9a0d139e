// TOML text: by toml++, which only this file includes, for it is 17,000 lines.
#include "tools/train/flags/toml_text.h"

#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "core/text.h"

namespace penstock {

namespace {

/// toml++ bounds brackets and no dots: the table of a key a.a.a... calls itself when it is written and when it ends.
/// Counts the dots between two characters that end a key, outside of texts and comments.
void check_dots(const std::string& toml) {
  constexpr int kMostDots = 100;
  int dots = 0, line = 1;
  char quote = '\0';
  for (size_t i = 0; i < toml.size(); ++i) {
    const char c = toml[i];
    if (c == '\n') ++line;
    if (quote != '\0') {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      i = std::min(toml.find('\n', i), toml.size()) - 1;
    } else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == ']') {
      dots = 0;
    } else if (c == '.' && ++dots > kMostDots) {
      throw toml_error(concat("line ", line, ": a key of more than ", kMostDots, " parts"));
    }
  }
}

}  // namespace

std::string json_of_toml(const std::string& toml) {
  check_dots(toml);
  try {
    std::ostringstream json;
    json << toml::json_formatter{toml::parse(toml)};
    return json.str();
  } catch (const toml::parse_error& error) {
    throw toml_error(concat("line ", error.source().begin.line, ": ", error.description()));
  }
}

}  // namespace penstock
