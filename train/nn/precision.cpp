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

/// Gradients of a loss that is the mean over a batch have a factor of 1 / batch size, and f16 rounds what is below 3e-8
/// to 0. 1024 takes off that factor for batches of about a thousand, and leaves 65504 / 1024 = 64 for the largest
/// gradient.
constexpr double kF16Scale = 1024;

}  // namespace

Precision parse_precision(const std::string& text) {
  const Spec typed = parse_spec("precision", text);
  const std::vector<std::string> known{"bf16", "f16", "f32", "tf32"};
  if (std::find(known.begin(), known.end(), typed.name()) == known.end())
    throw config_error(concat("--precision: ", unknown_name("precision", typed.name(), known)));
  const bool is_f16 = typed.name() == "f16";
  const Spec spec = typed.with_keys(is_f16 ? std::vector<std::string>{"scale"} : std::vector<std::string>());
  if (typed.name() == "bf16") return {.name = typed.name(), .dtype = c10::kBFloat16};
  if (!is_f16) return {.name = typed.name()};
  const double scale = spec.get("scale", kF16Scale);
  int exponent = 0;
  if (!(scale >= 1 && scale <= 65536 && std::frexp(scale, &exponent) == 0.5))
    throw config_error(concat("--precision f16: scale is ", scale, "; expected a power of two from 1 to 65536"));
  return {.name = typed.name(), .dtype = c10::kHalf, .gradient_scale = scale};
}

}  // namespace penstock
