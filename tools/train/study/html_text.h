// html_text(): escapes the characters that have a meaning in HTML.
#pragma once

#include <string>

namespace penstock {

/// `text` as it is written between tags or in a quoted attribute.
inline std::string html_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace penstock
