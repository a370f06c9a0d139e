// Registry: the one place in the process that holds the entries of every kind.
#include "core/registry.h"

namespace penstock::detail {
namespace {

Registrations* under_observation = nullptr;

}  // namespace

void* entries_of(const char* kind, const std::function<std::shared_ptr<void>()>& make) {
  // Never destroyed, because entries are used until the process ends.
  static auto& all = *new std::map<std::string, std::shared_ptr<void>>;
  auto& entries = all[kind];
  if (!entries) entries = make();
  return entries.get();
}

void observe_registrations(Registrations* registrations) { under_observation = registrations; }

void on_registered(const std::string& kind, const std::string& name, bool is_new) {
  if (under_observation != nullptr) {
    (is_new ? under_observation->added : under_observation->taken).push_back(concat(kind, " ", name));
  } else if (!is_new) {
    throw bug_error(concat(kind, " ", name, ": registered twice; expected one file for each"));
  }
}

}  // namespace penstock::detail
