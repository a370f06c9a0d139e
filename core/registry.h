// Registry: plug-ins of one kind by name. A plug-in is one file whose last statement registers it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock {

/// `Kind` names the plug-in kind and what its factories take beside the spec:
///
///     struct TransformKind {
///       using Interface = Transform;
///       static constexpr const char* kName = "transform";
///       using Factory = std::function<std::unique_ptr<Transform>(const Spec&)>;
///     };
///
/// Thread-safety: filled before main() by static Registered objects, only read after.
template <class Kind>
class Registry {
 public:
  struct Entry {
    std::string help;  // one line, with the defaults of its keys
    typename Kind::Factory make;
  };

  static std::map<std::string, Entry>& entries() {
    static std::map<std::string, Entry> entries;
    return entries;
  }

  static std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries()) names.push_back(name);
    return names;
  }

  /// Builds the plug-in that `spec` names. Throws config_error for an unknown name (known ones listed, a near miss
  /// suggested) and for keys that the plug-in did not ask for.
  template <class... Arguments>
  static std::unique_ptr<typename Kind::Interface> make(const Spec& spec, Arguments&&... arguments) {
    const auto found = entries().find(spec.name());
    if (found == entries().end()) throw config_error(unknown_name(Kind::kName, spec.name(), names()));
    auto made = found->second.make(spec, std::forward<Arguments>(arguments)...);
    spec.reject_unknown_keys();
    return made;
  }
};

/// A static object of this type registers a plug-in: `const Registered<TransformKind> kRegistered{name, help, make};`
template <class Kind>
struct Registered {
  Registered(const std::string& name, const std::string& help, typename Kind::Factory make) {
    if (!Registry<Kind>::entries().emplace(name, typename Registry<Kind>::Entry{help, std::move(make)}).second)
      throw bug_error(concat(Kind::kName, " ", name, ": registered twice; expected one file for each name"));
  }
};

}  // namespace penstock
