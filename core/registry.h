// Registry: finds the plug-ins of one kind by name. A plug-in is one file whose last statement registers it.
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

namespace detail {

struct NoTraits {};

template <class Kind>
struct TraitsOfKind {
  using Type = NoTraits;
};
template <class Kind>
requires requires { typename Kind::Traits; }
struct TraitsOfKind<Kind> {
  using Type = typename Kind::Traits;
};
template <class Kind>
using TraitsOf = typename TraitsOfKind<Kind>::Type;

/// The entries of `kind`, which the first call makes. They are kept in libpenstock. If they were in a static variable
/// of a template, a plug-in that hides its symbols (-fvisibility=hidden) would register into a copy of its own.
void* entries_of(const char* kind, const std::function<std::shared_ptr<void>()>& make);

/// What was registered ("transform invert"), and what was not because its name (of a codec its encoding) was taken.
struct Registrations {
  std::vector<std::string> added, taken;
};

/// From here on registrations are also recorded in `registrations`. A name that is taken is then recorded instead of
/// thrown, because no exception may leave the initialisation of a shared library. Null ends this.
void observe_registrations(Registrations* registrations);

/// Throws bug_error for a name that is taken, unless registrations are being observed.
void on_registered(const std::string& kind, const std::string& name, bool is_new);

}  // namespace detail

/// `Kind` gives the name of the plug-in kind, its interface and the arguments of its factories. For example:
///
///     struct TransformKind {
///       using Interface = Transform;
///       static constexpr const char* kName = "transform";
///       using Factory = std::function<std::unique_ptr<Transform>(const Spec&)>;
///       struct Traits {};  // what else a plug-in of this kind says about itself; optional
///     };
///
/// Thread-safety: static Registered objects fill it before main() begins, and load_plugin() adds to it; after that it
/// is only read.
template <class Kind>
class Registry {
 public:
  struct Entry {
    std::vector<std::string> keys;  // all keys that its spec may have
    std::string help;               // one line, with the default of each key
    typename Kind::Factory make;
    detail::TraitsOf<Kind> traits;
  };

  using Entries = std::map<std::string, Entry>;
  static Entries& entries() {
    static auto& entries =
        *static_cast<Entries*>(detail::entries_of(Kind::kName, [] { return std::make_shared<Entries>(); }));
    return entries;
  }

  static std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries()) names.push_back(name);
    return names;
  }

  /// The entry of that name. Throws config_error for an unknown name; the message lists the known names and suggests a
  /// near miss.
  static const Entry& entry(const std::string& name) {
    const auto found = entries().find(name);
    if (found == entries().end()) throw config_error(unknown_name(Kind::kName, name, names()));
    return found->second;
  }

  /// Builds the plug-in that `spec` names. Throws config_error for an unknown name or an unknown key. Both are checked
  /// before any value is read.
  template <class... Arguments>
  static std::unique_ptr<typename Kind::Interface> make(const Spec& spec, Arguments&&... arguments) {
    const Entry& found = entry(spec.name());
    return found.make(spec.with_keys(found.keys), std::forward<Arguments>(arguments)...);
  }
};

/// A static object of this type registers a plug-in: `const Registered<TransformKind> kBlur{name, {"key"}, help,
/// make};`
template <class Kind>
struct Registered {
  Registered(const std::string& name, std::vector<std::string> keys, const std::string& help,
             typename Kind::Factory make, detail::TraitsOf<Kind> traits = {}) {
    typename Registry<Kind>::Entry entry{std::move(keys), help, std::move(make), std::move(traits)};
    const bool is_new = Registry<Kind>::entries().emplace(name, std::move(entry)).second;
    detail::on_registered(Kind::kName, name, is_new);
  }
};

}  // namespace penstock
