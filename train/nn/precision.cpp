// Precision: its names and the scale of f16.
#include "train/nn/precision.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock {
namespace {

double scale_key(const Spec& spec, const char* key, double fallback) {
  const double scale = spec.get(key, fallback);
  int exponent = 0;
  if (!(scale >= 1 && scale <= 65536 && std::frexp(scale, &exponent) == 0.5))
    throw config_error(concat("--precision f16: ", key, " is ", scale, "; expected a power of two from 1 to 65536"));
  return scale;
}

Precision half_precision(const Spec& spec) {
  Precision precision{.name = spec.name(), .dtype = c10::kHalf};
  for (const char* key : {"init", "every"})
    if (spec.has("scale") && spec.has(key))
      throw config_error(concat("--precision f16: has scale and ", key,
                                "; expected one of them: a scale that is given stays as it is"));
  if (spec.has("scale")) {
    precision.gradient_scale = scale_key(spec, "scale", 1);
    return precision;
  }
  precision.gradient_scale = scale_key(spec, "init", 65536);
  precision.growth_steps = spec.get("every", 2000);
  if (precision.growth_steps < 1)
    throw config_error(concat("--precision f16: every is ", precision.growth_steps, "; expected 1 step or more"));
  return precision;
}

}  // namespace

Precision parse_precision(const std::string& text) {
  const Spec typed = parse_spec("precision", text);
  const std::vector<std::string> known{"bf16", "f16", "f32", "tf32"};
  if (std::find(known.begin(), known.end(), typed.name()) == known.end())
    throw config_error(concat("--precision: ", unknown_name("precision", typed.name(), known)));
  const bool is_f16 = typed.name() == "f16";
  const Spec spec =
      typed.with_keys(is_f16 ? std::vector<std::string>{"scale", "init", "every"} : std::vector<std::string>());
  if (typed.name() == "bf16") return {.name = typed.name(), .dtype = c10::kBFloat16};
  return is_f16 ? half_precision(spec) : Precision{.name = typed.name()};
}

}  // namespace penstock
