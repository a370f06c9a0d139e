// FilterChoice: the filter that a transform asks for, by its keys `interpolation` and `filter`.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "augment/plan/plan.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock::detail {

/// The filter of a transform. Where `other` is another one, each sample draws one of the two, evenly, as timm's
/// "random" draws bicubic or bilinear.
struct FilterChoice {
  Filter filter = Filter::kNearest;
  Filter other = filter;

  bool is_random() const { return other != filter; }
};

/// The names of `interpolation`. A transform that resizes along the axes weighs pixels as Pillow's Image.resize. The
/// others sample points as its Image.transform, which has three of them.
inline std::optional<FilterChoice> interpolation(const std::string& name, bool is_resize) {
  const Filter bilinear = is_resize ? Filter::kAntialias : Filter::kBilinear;
  const Filter bicubic = is_resize ? Filter::kAntialiasBicubic : Filter::kBicubic;
  if (name == "nearest") return FilterChoice{Filter::kNearest};
  if (name == "bilinear") return FilterChoice{bilinear};
  if (name == "bicubic") return FilterChoice{bicubic};
  if (name == "random") return FilterChoice{bicubic, bilinear};
  if (!is_resize) return std::nullopt;
  if (name == "antialias") return FilterChoice{Filter::kAntialias};  // the name that `filter` has for it
  if (name == "lanczos") return FilterChoice{Filter::kAntialiasLanczos};
  if (name == "box") return FilterChoice{Filter::kAntialiasBox};
  if (name == "hamming") return FilterChoice{Filter::kAntialiasHamming};
  return std::nullopt;
}

/// The key `interpolation`, with the names that Pillow, torchvision and timm have, or the key `filter`, which only
/// knows the linear ones: there, bilinear is without antialiasing. Only transforms that resize along the axes can
/// antialias.
inline FilterChoice filter(const Spec& spec, const char* fallback, bool is_resize, bool may_be_random = true) {
  const bool has_interpolation = spec.has("interpolation");
  if (spec.has("filter") && has_interpolation)
    throw config_error(concat(spec.where(), ": filter and interpolation are given; expected one of them"));
  if (has_interpolation) {
    const std::string name = spec.get("interpolation", "");
    const auto found = interpolation(name, is_resize);
    if (found && (may_be_random || !found->is_random())) return *found;
    const char* known = is_resize       ? "nearest, bilinear, bicubic, lanczos, box, hamming or random"
                        : may_be_random ? "nearest, bilinear, bicubic or random"
                                        : "nearest, bilinear or bicubic";
    throw config_error(concat(spec.where(), ": interpolation is ", in_quotes(name), "; expected ", known));
  }
  const std::string name = spec.get("filter", fallback);
  if (name == "nearest") return {Filter::kNearest};
  if (name == "bilinear") return {Filter::kBilinear};
  if (name == "antialias" && is_resize) return {Filter::kAntialias};
  throw config_error(concat(spec.where(), ": filter is ", in_quotes(name), "; expected ",
                            is_resize ? "antialias, bilinear or nearest" : "nearest or bilinear"));
}

inline bool draws_filter(const Spec& spec) { return spec.get("interpolation", "") == "random"; }

/// The spec with which an evaluation resizes in place of a random one: `random` becomes the default.
inline Spec without_random(const Spec& spec) { return draws_filter(spec) ? spec.without("interpolation") : spec; }

inline std::string resize_in_evaluation(const Spec& spec) { return without_random(spec).text(); }

/// The filter of a plan whose transforms ask for both: the better one. Bicubic points beside a resize by a triangle, a
/// box or a hamming window are a bicubic resize, which is bicubic where the map turns as well.
inline Filter better_filter(Filter one, Filter other) {
  const Filter best = std::max(one, other);
  const bool has_bicubic_points = one == Filter::kBicubic || other == Filter::kBicubic;
  return has_bicubic_points && best > Filter::kBicubic ? std::max(best, Filter::kAntialiasBicubic) : best;
}

/// A plan has one filter: the best one that any of its transforms asks for.
inline void use_filter(Plan& plan, Filter filter) { plan.filter = better_filter(plan.filter, filter); }

/// The same, to be called after everything else that a transform draws, which then does not depend on `random`.
inline void use_filter(Plan& plan, const FilterChoice& choice, Rng& rng) {
  use_filter(plan, choice.is_random() && rng.chance(0.5) ? choice.other : choice.filter);
}

}  // namespace penstock::detail
