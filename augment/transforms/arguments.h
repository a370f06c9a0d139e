// arguments: reads and checks the keys that several transforms have in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "augment/pixels/blur_taps.h"
#include "augment/plan/plan.h"
#include "augment/transform.h"
#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock::detail {

inline double probability(const Spec& spec, const std::string& key, double fallback) {
  const double p = spec.get(key, fallback);
  if (p < 0 || p > 1) throw config_error(concat(spec.where(), ": ", key, " is ", p, "; expected 0 to 1"));
  return p;
}

/// A length of the output in pixels. At most 65535, which is the most that the extent in a shard can hold.
inline int length(const Spec& spec, const std::string& key, int fallback) {
  const int length = spec.get(key, fallback);
  if (length < 1 || length > 65535)
    throw config_error(concat(spec.where(), ": ", key, " is ", length, "; expected 1 to 65535 pixels"));
  return length;
}

/// A level with which a picture is filled: one that its pixels can have.
inline float level(const Spec& spec, const std::string& key, double fallback, const DataStatistics& statistics) {
  const double level = spec.get(key, fallback);
  if (statistics.pixels == PixelType::kF32) {
    if (std::isfinite(static_cast<float>(level))) return static_cast<float>(level);
    throw config_error(concat(spec.where(), ": ", key, " is ", level, "; expected a finite f32"));
  }
  if (level < 0 || level > statistics.white())
    throw config_error(
        concat(spec.where(), ": ", key, " is ", level, "; expected a level from 0 to ", statistics.white()));
  return static_cast<float>(level);
}

/// Nothing where the key is not given. The plan then keeps its fill, which is 0 unless another transform has set one.
inline std::optional<float> fill(const Spec& spec, const DataStatistics& statistics) {
  if (!spec.has("fill")) return std::nullopt;
  return level(spec, "fill", 0, statistics);
}

/// The key `sigma` of a blur: the range of its standard deviation in pixels. The default is torchvision's.
inline Range deviation(const Spec& spec, int kernel) {
  const Range range = spec.get("sigma", Range{0.1, 2});
  if (!is_blur(static_cast<float>(range.low), kernel) || !is_blur(static_cast<float>(range.high), kernel))
    throw config_error(concat(spec.where(), ": sigma is ", range.low, ":", range.high, "; expected more than 0, up to ",
                              kMaxBlurDeviation, " pixels"));
  return range;
}

/// A list of numbers whose length is one of `counts`. A single 0 where the key is not given.
inline std::vector<double> numbers(const Spec& spec, const std::string& key, std::initializer_list<size_t> counts) {
  auto values = spec.get(key, std::vector<double>{0});
  std::vector<std::string> known;
  for (const size_t count : counts) {
    if (values.size() == count) return values;
    known.push_back(std::to_string(count));
  }
  throw config_error(
      concat(spec.where(), ": ", key, " has ", values.size(), " numbers; expected ", join(known, " or ")));
}

/// A single number `v` means the range -v:v; `a:b` means that range.
inline Range angles(const Spec& spec, const std::string& key, const std::vector<double>& values) {
  if (values.size() == 1) {
    if (values[0] < 0)
      throw config_error(concat(spec.where(), ": ", key, " is ", values[0], "; expected 0 or more, or low:high"));
    return {-values[0], values[0]};
  }
  if (values[0] > values[1])
    throw config_error(
        concat(spec.where(), ": ", key, " is ", values[0], ":", values[1], "; expected low:high with low <= high"));
  return {values[0], values[1]};
}

/// `size=PIXELS`, or `height=PIXELS,width=PIXELS`.
struct Size {
  int side = 0;  // 0 where height and width are given separately
  int height = 0, width = 0;
};

/// `side_of` is appended to the error message to say what `size` measures: " of the shorter side", or nothing.
inline Size size(const Spec& spec, const char* side_of = "") {
  const bool has_size = spec.has("size"), has_height = spec.has("height"), has_width = spec.has("width");
  if (has_size ? has_height || has_width : !(has_height && has_width))
    throw config_error(concat(spec.where(), ": ",
                              has_size ? "size and a height or width are" : "height and width are not both",
                              " given; expected size=PIXELS", side_of, ", or height=PIXELS,width=PIXELS"));
  if (!has_size) return {0, length(spec, "height", 0), length(spec, "width", 0)};
  const int side = length(spec, "size", 0);
  return {side, side, side};
}

/// The filter of a transform. With `is_random` each sample draws bilinear or bicubic, evenly, as timm's "random", and
/// `filter` is the bicubic one.
struct FilterChoice {
  Filter filter = Filter::kNearest;
  bool is_random = false;
};

/// The names of `interpolation`. A transform that resizes along the axes weighs pixels as Pillow's Image.resize. The
/// others sample points as its Image.transform, which has three of them.
inline std::optional<Filter> interpolation(const std::string& name, bool is_resize) {
  if (name == "nearest") return Filter::kNearest;
  if (name == "bilinear") return is_resize ? Filter::kAntialias : Filter::kBilinear;
  if (name == "bicubic" || name == "random") return is_resize ? Filter::kAntialiasBicubic : Filter::kBicubic;
  if (!is_resize) return std::nullopt;
  if (name == "antialias") return Filter::kAntialias;  // the name that `filter` has for it
  if (name == "lanczos") return Filter::kAntialiasLanczos;
  if (name == "box") return Filter::kAntialiasBox;
  if (name == "hamming") return Filter::kAntialiasHamming;
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
    const bool is_random = name == "random";
    const auto found = interpolation(name, is_resize);
    if (found && (may_be_random || !is_random)) return {*found, is_random};
    throw config_error(concat(spec.where(), ": interpolation is ", in_quotes(name), "; expected nearest, bilinear",
                              is_resize ? ", bicubic, lanczos, box, hamming" : ", bicubic",
                              may_be_random ? " or random" : ""));
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

/// A plan has one filter: the best one that any of its transforms asks for.
inline void use_filter(Plan& plan, Filter filter) { plan.filter = std::max(plan.filter, filter); }

/// The same, where `random` draws after everything else that a transform draws: what it draws does not depend on it.
inline void use_filter(Plan& plan, const FilterChoice& choice, bool is_resize, Rng& rng) {
  const bool is_bilinear = choice.is_random && rng.chance(0.5);
  const Filter bilinear = is_resize ? Filter::kAntialias : Filter::kBilinear;
  use_filter(plan, is_bilinear ? bilinear : choice.filter);
}

}  // namespace penstock::detail
