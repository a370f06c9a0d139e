// Rounding: what colour steps on whole levels are rounded to, for render() and for the kernels of a CUDA device, which
// therefore give the same bits.
#pragma once

#include <cstdint>

namespace penstock {

/// Which levels a colour step starts from and leaves. Matters for brightness, contrast, saturation, sharpness and
/// auto-contrast; the others give whole levels anyway, or have no counterpart.
enum class Rounding : uint8_t {
  kNone,    // real numbers; what torchvision does on f32 tensors
  kPillow,  // levels are rounded before the step, and its result is cut to whole ones; grey levels and their mean are
            // rounded. What ImageEnhance and ImageOps of Pillow 12 do, and with them timm, and torchvision on PIL
            // pictures
  kTensor   // the same, but grey levels are cut and their mean is real: what torchvision 0.26 does on u8 tensors
};

namespace detail {

/// The level limited to 0..255 and cut to a whole one.
inline float cut_level(float level) {
  const float positive = level > 0 ? level : 0;
  return static_cast<float>(static_cast<int32_t>(positive < 255 ? positive : 255));
}

/// `factor` of a level and 1 - factor of another one, in the order of operations of Pillow or of torchvision: whole
/// results of exact arithmetic depend on it. Requires a rounding.
inline float blended_level(float level, float other, float factor, Rounding rounding) {
  if (rounding == Rounding::kPillow) return cut_level(other + factor * (level - other));
  return cut_level(factor * level + (1 - factor) * other);
}

/// What auto-contrast makes of a level where the least and greatest ones of the channel are these, least < greatest.
/// Pillow computes in f64 and torchvision in f32. Requires a rounding.
inline float stretched_level(int level, float least, float greatest, Rounding rounding) {
  if (rounding == Rounding::kTensor)
    return cut_level((static_cast<float>(level) - least) * (1 / (greatest - least) * 255));
  const double scale = 255.0 / (static_cast<double>(greatest) - static_cast<double>(least));
  const double offset = -static_cast<double>(least) * scale;
  return cut_level(static_cast<float>(static_cast<int32_t>(level * scale + offset)));
}

}  // namespace detail
}  // namespace penstock
