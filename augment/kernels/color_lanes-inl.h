// The colours of render(): applies the point steps to the levels of one vector of pixels. One lane is one output pixel.
// render_rows.cpp and color_rows.cpp include this file once for each instruction set.
#if defined(PENSTOCK_COLOR_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_COLOR_LANES_INL_H
#undef PENSTOCK_COLOR_LANES_INL_H
#else
#define PENSTOCK_COLOR_LANES_INL_H
#endif

#include <cstdint>
#include <span>

#include "augment/kernels/render_job.h"
#include "augment/kernels/render_vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

template <int kChannels>
struct Levels {
  V channel[kChannels];
};

HWY_INLINE V clamped(V level) { return hn::Min(hn::Max(level, hn::Zero(D())), hn::Set(D(), 255.f)); }

/// The grey level, with torchvision's weights. They add up to 0.9999.
HWY_INLINE V grey_of(const Levels<3>& in) {
  const D d;
  const V red_green = hn::Add(hn::Mul(in.channel[0], hn::Set(d, 0.2989f)), hn::Mul(in.channel[1], hn::Set(d, 0.587f)));
  return hn::Add(red_green, hn::Mul(in.channel[2], hn::Set(d, 0.114f)));
}
HWY_INLINE V grey_of(const Levels<1>& in) { return in.channel[0]; }

HWY_INLINE VI whole(V level) { return hn::NearestInt(clamped(level)); }

template <int kChannels>
HWY_INLINE Levels<kChannels> whole_levels(const Levels<kChannels>& in) {
  Levels<kChannels> out;
  for (int i = 0; i < kChannels; ++i) out.channel[i] = hn::ConvertTo(D(), whole(in.channel[i]));
  return out;
}

HWY_INLINE V cut(V level) { return hn::ConvertTo(D(), hn::ConvertTo(DI(), clamped(level))); }

/// Pillow's grey level of whole levels: weights of 16 bits, and the sum is rounded.
HWY_INLINE V pillow_grey_of(const Levels<3>& in) {
  const DI d;
  const VI red = hn::Mul(hn::ConvertTo(d, in.channel[0]), hn::Set(d, 19595));
  const VI green = hn::Mul(hn::ConvertTo(d, in.channel[1]), hn::Set(d, 38470));
  const VI blue = hn::Mul(hn::ConvertTo(d, in.channel[2]), hn::Set(d, 7471));
  const VI sum = hn::Add(hn::Add(red, green), hn::Add(blue, hn::Set(d, 0x8000)));
  return hn::ConvertTo(D(), hn::ShiftRight<16>(sum));
}

/// The grey level that a rounding has. Requires whole levels where there is one.
HWY_INLINE V grey_of(const Levels<3>& in, Rounding rounding) {
  if (rounding == Rounding::kPillow) return pillow_grey_of(in);
  return rounding == Rounding::kTensor ? cut(grey_of(in)) : grey_of(in);
}
HWY_INLINE V grey_of(const Levels<1>& in, Rounding) { return in.channel[0]; }

/// blended_level() of rounding.h.
HWY_INLINE V blended(V level, V other, float factor, Rounding rounding) {
  const D d;
  const V own = hn::Set(d, factor);
  if (rounding == Rounding::kPillow) return cut(hn::Add(other, hn::Mul(own, hn::Sub(level, other))));
  return cut(hn::Add(hn::Mul(own, level), hn::Mul(hn::Set(d, 1 - factor), other)));
}

HWY_INLINE Levels<3> saturated(const Levels<3>& in, float factor) {
  const D d;
  const V own = hn::Set(d, factor), grey = hn::Mul(grey_of(in), hn::Set(d, 1 - factor));
  Levels<3> out;
  for (int i = 0; i < 3; ++i) out.channel[i] = clamped(hn::Add(hn::Mul(in.channel[i], own), grey));
  return out;
}

/// Rotates the hue (of HSV) by `turns` of the full circle; saturation and value stay the same. Let V be the greatest
/// level, C the greatest minus the least, and H the new hue in sixths of the circle. Then a channel is V - C *
/// clamp(min(k, 4 - k), 0, 1) with k = (n + H) mod 6 and n = 5, 3, 1 for R, G, B. torchvision's _hsv2rgb gives the same
/// values, from a table of sextants.
HWY_INLINE Levels<3> hue_turned(const Levels<3>& in, float turns) {
  const D d;
  const V red = in.channel[0], green = in.channel[1], blue = in.channel[2];
  const V zero = hn::Zero(d), one = hn::Set(d, 1.f), four = hn::Set(d, 4.f), six = hn::Set(d, 6.f);
  const V value = hn::Max(hn::Max(red, green), blue);
  const V chroma = hn::Sub(value, hn::Min(hn::Min(red, green), blue));
  const auto is_red = hn::Eq(value, red), is_green = hn::Eq(value, green);
  const V ahead = hn::IfThenElse(is_red, green, hn::IfThenElse(is_green, blue, red));
  const V behind = hn::IfThenElse(is_red, blue, hn::IfThenElse(is_green, red, green));
  const V sextant = hn::IfThenElse(is_red, zero, hn::IfThenElse(is_green, hn::Set(d, 2.f), four));
  const V divisor = hn::IfThenElse(hn::Eq(chroma, zero), one, chroma);
  V hue = hn::Add(hn::Add(sextant, hn::Div(hn::Sub(ahead, behind), divisor)), hn::Set(d, 6 * turns));  // from -4 to 8
  hue = hn::IfThenElse(hn::Lt(hue, zero), hn::Add(hue, six), hue);
  hue = hn::IfThenElse(hn::Ge(hue, six), hn::Sub(hue, six), hue);
  Levels<3> out;
  for (int i = 0; i < 3; ++i) {
    V k = hn::Add(hue, hn::Set(d, static_cast<float>(5 - 2 * i)));
    k = hn::IfThenElse(hn::Ge(k, six), hn::Sub(k, six), k);
    const V part = hn::Min(hn::Max(hn::Min(k, hn::Sub(four, k)), zero), one);
    out.channel[i] = clamped(hn::Sub(value, hn::Mul(chroma, part)));
  }
  return out;
}

/// Grey pictures have neither saturation nor hue. As in torchvision, they do not change.
HWY_INLINE Levels<1> saturated(const Levels<1>& in, float) { return in; }
HWY_INLINE Levels<1> hue_turned(const Levels<1>& in, float) { return in; }

/// The same on whole levels.
HWY_INLINE Levels<3> saturated(const Levels<3>& in, float factor, Rounding rounding) {
  if (rounding == Rounding::kNone) return saturated(in, factor);
  Levels<3> out = whole_levels(in);
  const V grey = grey_of(out, rounding);
  for (V& level : out.channel) level = blended(level, grey, factor, rounding);
  return out;
}
HWY_INLINE Levels<1> saturated(const Levels<1>& in, float, Rounding) { return in; }

HWY_INLINE V posterized(V level, int bits) {
  return hn::ConvertTo(D(), hn::And(whole(level), hn::Set(DI(), 256 - (1 << (8 - bits)))));
}

HWY_INLINE V solarized(V level, float threshold) {
  const V rounded = hn::ConvertTo(D(), whole(level));
  return hn::IfThenElse(hn::Ge(rounded, hn::Set(D(), threshold)), hn::Sub(hn::Set(D(), 255.f), rounded), rounded);
}

HWY_INLINE V solarize_added(V level, float amount) {
  const V rounded = hn::ConvertTo(D(), whole(level));
  const V added = clamped(hn::Add(rounded, hn::Set(D(), amount)));
  return hn::IfThenElse(hn::Lt(rounded, hn::Set(D(), 128.f)), added, rounded);
}

template <int kChannels>
HWY_INLINE Levels<kChannels> colored(const Levels<kChannels>& in, const PointStep& step) {
  const D d;
  if (step.kind == PointStep::Kind::kSaturation) return saturated(in, step.amount, step.rounding);
  if (step.kind == PointStep::Kind::kHue) return hue_turned(in, step.amount);
  Levels<kChannels> out;
  for (int i = 0; i < kChannels; ++i) {
    const V level = in.channel[i];
    if (step.kind == PointStep::Kind::kPosterize)
      out.channel[i] = posterized(level, static_cast<int>(step.amount));
    else if (step.kind == PointStep::Kind::kSolarize)
      out.channel[i] = solarized(level, step.amount);
    else if (step.kind == PointStep::Kind::kSolarizeAdd)
      out.channel[i] = solarize_added(level, step.amount);
    else if (step.kind == PointStep::Kind::kBlend)
      out.channel[i] = blended(hn::ConvertTo(d, whole(level)), hn::Set(d, step.other), step.amount, step.rounding);
    else
      out.channel[i] = clamped(hn::Add(hn::Mul(level, hn::Set(d, step.scale[i])), hn::Set(d, step.offset[i])));
  }
  return out;
}

template <int kChannels>
HWY_INLINE Levels<kChannels> colored(Levels<kChannels> levels, std::span<const PointStep> steps) {
  for (const PointStep& step : steps) levels = colored(levels, step);
  return levels;
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
