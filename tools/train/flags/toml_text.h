// TOML text: as JSON, which is what the rest reads.
#pragma once

#include <stdexcept>
#include <string>

namespace penstock {

/// What is wrong with a TOML text, with its line: "line 3: Error while parsing ...".
struct toml_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The JSON of a TOML 1.0 document, UTF-8. Numbers stay what they are; dates, times, inf and nan become texts.
///
/// Errors: toml_error for what is no TOML.
std::string json_of_toml(const std::string& toml);

}  // namespace penstock
