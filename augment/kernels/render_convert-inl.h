// convert_row(): converts a row of normalised f32 planes to the layouts that are neither f32 planes nor u8 pixels.
// Included once for each instruction set.
#if defined(PENSTOCK_RENDER_CONVERT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_RENDER_CONVERT_INL_H
#undef PENSTOCK_RENDER_CONVERT_INL_H
#else
#define PENSTOCK_RENDER_CONVERT_INL_H
#endif

#include "augment/kernels/render_job.h"
#include "augment/kernels/render_vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

struct ToF32 {
  using Tag = D;
  static HWY_INLINE V convert(V value) { return value; }
};

struct ToBf16 {
  using Tag = hn::Rebind<uint16_t, D>;
  static HWY_INLINE hn::Vec<Tag> convert(V value) {
    const DU du;
    const VU bits = hn::BitCast(du, value);
    const VU is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const VU rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), is_odd));
    return hn::DemoteTo(Tag(), hn::BitCast(DI(), rounded));
  }
};

/// As f16_bits() of half.h. Highway's own conversion (1.0.3) is used only where the processor has F16C, because
/// elsewhere it truncates instead of rounding.
struct ToF16 {
  using Tag = hn::Rebind<uint16_t, D>;
  static HWY_INLINE hn::Vec<Tag> convert(V value) {
#if HWY_TARGET <= HWY_AVX2
    return hn::BitCast(Tag(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value));
#else
    const DU du;
    const VU bits = hn::BitCast(du, value), magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
    const VU sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
    const VU is_odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const VU moved = hn::Add(magnitude, hn::Set(du, 0xFFFu - ((127u - 15) << 23)));
    const VU normal = hn::ShiftRight<13>(hn::Add(moved, is_odd));
    const V half = hn::Set(D(), 0.5f);
    const VU tiny = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(D(), magnitude), half)), hn::BitCast(du, half));
    const VI size = hn::BitCast(DI(), magnitude);
    const auto is_tiny = hn::Lt(size, hn::Set(DI(), (127 - 14) << 23));
    const auto is_finite = hn::Lt(size, hn::Set(DI(), (127 + 16) << 23));
    const VI finite = hn::IfThenElse(is_tiny, hn::BitCast(DI(), tiny), hn::BitCast(DI(), normal));
    const VI rounded = hn::IfThenElse(is_finite, finite, hn::Set(DI(), 0x7C00));
    return hn::DemoteTo(Tag(), hn::Or(rounded, hn::BitCast(DI(), sign)));
#endif
  }
};

/// `values` holds C lines of W floats, one line per channel.
template <class To>
HWY_NOINLINE void convert_row_to(const RenderJob& job, int channels, const float* values, int row) {
  using T = hn::TFromD<typename To::Tag>;
  const typename To::Tag to;
  const int width = job.plan->output_width;
  const ptrdiff_t plane = static_cast<ptrdiff_t>(width) * job.plan->output_height;
  const bool is_interleaved = channels == 3 && !is_planar(job.layout);
  T* line = static_cast<T*>(job.output) + static_cast<ptrdiff_t>(row) * width * (is_interleaved ? 3 : 1);
  HWY_ALIGN float part[kLanes] = {};
  T converted[3 * kLanes];
  const auto at = [&](int channel, int column, int count) HWY_ATTR {
    const float* from = values + channel * width + column;
    if (count == kLanes) return To::convert(hn::LoadU(D(), from));
    std::memcpy(part, from, static_cast<size_t>(count) * sizeof(float));
    return To::convert(hn::Load(D(), part));
  };
  for_each_vector(0, width, [&](int column, int count) HWY_ATTR {
    const bool is_whole = count == kLanes;
    if (is_interleaved) {
      hn::StoreInterleaved3(at(0, column, count), at(1, column, count), at(2, column, count), to,
                            is_whole ? line + column * 3 : converted);
      if (!is_whole) std::memcpy(line + column * 3, converted, static_cast<size_t>(count) * 3 * sizeof(T));
      return;
    }
    for (int i = 0; i < channels; ++i) {
      hn::StoreU(at(i, column, count), to, is_whole ? line + i * plane + column : converted);
      if (!is_whole) std::memcpy(line + i * plane + column, converted, static_cast<size_t>(count) * sizeof(T));
    }
  });
}

inline HWY_NOINLINE void convert_row(const RenderJob& job, int channels, const float* values, int row) {
  switch (job.layout) {
    case Layout::kF16Nchw:
    case Layout::kF16Nhwc:
      return convert_row_to<ToF16>(job, channels, values, row);
    case Layout::kBf16Nchw:
    case Layout::kBf16Nhwc:
      return convert_row_to<ToBf16>(job, channels, values, row);
    default:
      return convert_row_to<ToF32>(job, channels, values, row);
  }
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
