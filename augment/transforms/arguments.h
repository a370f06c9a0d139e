// arguments: reads and checks the keys that several transforms have in common.
#pragma once

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "augment/pixels/blur_taps.h"
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

}  // namespace penstock::detail
