// TOML text: by toml++, which only this file includes, for it is 17,000 lines.
#include "tools/train/toml_text.h"

#include <toml++/toml.h>

#include <sstream>

#include "core/text.h"

namespace penstock {

std::string json_of_toml(const std::string& toml) {
  try {
    std::ostringstream json;
    json << toml::json_formatter{toml::parse(toml)};
    return json.str();
  } catch (const toml::parse_error& error) {
    throw toml_error(concat("line ", error.source().begin.line, ": ", error.description()));
  }
}

}  // namespace penstock
