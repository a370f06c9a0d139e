// choice(): what a word that a user has typed stands for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace penstock {

/// What `text`, the value of flag or argument `name`, stands for. Throws a config_error that lists the known values,
/// each of which is a `what`.
template <class Value>
Value choice(const std::string& name, const std::string& text, const std::map<std::string, Value>& known,
             const char* what = "value") {
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  std::vector<std::string> words;
  for (const auto& [word, value] : known) words.push_back(word);
  throw config_error(concat(name, ": ", unknown_name(what, text, words)));
}

}  // namespace penstock
