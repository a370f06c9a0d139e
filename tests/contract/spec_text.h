// Specs that plug-ins have to refuse.
#pragma once

#include <string>
#include <vector>

#include "core/text.h"

namespace penstock {

/// A list such as "size=?,scale=?,zzz=1": values that nothing takes, and a key that nothing has.
inline std::string with_unknown_key(const std::string& name, const std::vector<std::string>& keys) {
  std::string spec = name + "(";
  for (const auto& key : keys) spec += key + "=?,";
  return spec + "zzz=1)";
}

/// `spec` with one value changed: "crop(size=8,pad=?)".
inline std::string with_value(const std::string& spec, const std::string& key, const std::string& value) {
  const size_t bracket = spec.find('(');
  std::string changed = spec.substr(0, bracket) + "(";
  if (bracket != std::string::npos)
    for (const auto& item : split(spec.substr(bracket + 1, spec.size() - bracket - 2), ','))
      if (!item.starts_with(key + "=")) changed += item + ",";
  return changed + key + "=" + value + ")";
}

}  // namespace penstock
