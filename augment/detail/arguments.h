// arguments: the checks that several transforms make of their keys.
#pragma once

#include <string>

#include "augment/plan.h"
#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock::detail {

inline double probability(const Spec& spec, const std::string& key, double fallback) {
  const double p = spec.get(key, fallback);
  if (p < 0 || p > 1) throw config_error(concat(spec.where(), ": ", key, " is ", p, "; expected 0 to 1"));
  return p;
}

/// A length in pixels of an output; 65535 is what a shard's extent can hold.
inline int length(const Spec& spec, const std::string& key, int fallback) {
  const int length = spec.get(key, fallback);
  if (length < 1 || length > 65535)
    throw config_error(concat(spec.where(), ": ", key, " is ", length, "; expected 1 to 65535 pixels"));
  return length;
}

inline Filter filter(const Spec& spec, const std::string& key, const char* fallback) {
  const std::string name = spec.get(key, fallback);
  if (name == "nearest") return Filter::kNearest;
  if (name == "bilinear") return Filter::kBilinear;
  throw config_error(concat(spec.where(), ": ", key, " is \"", name, "\"; expected nearest or bilinear"));
}

/// One plan has one filter: bilinear as soon as one transform asks for it.
inline void use_filter(Plan& plan, Filter filter) {
  if (filter == Filter::kBilinear) plan.filter = Filter::kBilinear;
}

}  // namespace penstock::detail
