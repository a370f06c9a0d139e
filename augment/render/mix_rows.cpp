// mix_row(): computes mix_weight * row + (1 - mix_weight) * partner, or copies the rectangle of cutmix. Written in
// Highway SIMD, compiled once for each instruction set; the best set is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/render/mix_rows.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include "augment/kernels/render_convert-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

struct F32 {
  using Tag = D;
  static HWY_INLINE V to_float(V value) { return value; }
  static HWY_INLINE V from_float(V value) { return value; }
};

struct U8 {
  using Tag = D8;
  static HWY_INLINE V to_float(hn::Vec<D8> value) { return hn::ConvertTo(D(), hn::PromoteTo(DI(), value)); }
  static HWY_INLINE hn::Vec<D8> from_float(V value) { return hn::DemoteTo(D8(), hn::NearestInt(value)); }
};

struct U16 {
  using Tag = hn::Rebind<uint16_t, D>;
  static HWY_INLINE V to_float(hn::Vec<Tag> value) { return hn::ConvertTo(D(), hn::PromoteTo(DI(), value)); }
  static HWY_INLINE hn::Vec<Tag> from_float(V value) { return hn::DemoteTo(Tag(), hn::NearestInt(value)); }
};

struct Bf16 {
  using Tag = ToBf16::Tag;
  static HWY_INLINE V to_float(hn::Vec<Tag> value) {
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), value)));
  }
  static HWY_INLINE hn::Vec<Tag> from_float(V value) { return ToBf16::convert(value); }
};

/// The bits of a finite f16, shifted to the positions that they have in an f32, give 2^-112 times its value, because
/// the exponent bias of f16 is 15 and that of f32 is 127.
struct F16 {
  using Tag = ToF16::Tag;
  static HWY_INLINE V to_float(hn::Vec<Tag> value) {
    const DU du;
    const VU bits = hn::PromoteTo(du, value);
    const VU magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7FFFu)));
    const VU sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    const V scaled = hn::Mul(hn::BitCast(D(), magnitude), hn::Set(D(), 0x1p112f));
    return hn::Or(scaled, hn::BitCast(D(), sign));
  }
  static HWY_INLINE hn::Vec<Tag> from_float(V value) { return ToF16::convert(value); }
};

template <class Element>
void blend(float mix_weight, size_t count, const void* partner, void* row) {
  using T = hn::TFromD<typename Element::Tag>;
  const typename Element::Tag tag;
  const V own = hn::Set(D(), mix_weight), other = hn::Set(D(), 1 - mix_weight);
  const auto blended = [&](const T* a, const T* b) HWY_ATTR {
    return Element::from_float(hn::Add(hn::Mul(own, Element::to_float(hn::LoadU(tag, a))),
                                       hn::Mul(other, Element::to_float(hn::LoadU(tag, b)))));
  };
  T* const a = static_cast<T*>(row);
  const T* const b = static_cast<const T*>(partner);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(blended(a + i, b + i), tag, a + i);
  if (i == count) return;
  T part_a[kLanes] = {}, part_b[kLanes] = {};
  std::memcpy(part_a, a + i, (count - i) * sizeof(T));
  std::memcpy(part_b, b + i, (count - i) * sizeof(T));
  hn::StoreU(blended(part_a, part_b), tag, part_a);
  std::memcpy(a + i, part_a, (count - i) * sizeof(T));
}

void blend_rows(Layout layout, float mix_weight, size_t count, const void* partner, void* row) {
  switch (layout) {
    case Layout::kU8Nhwc:
      return blend<U8>(mix_weight, count, partner, row);
    case Layout::kU16Nhwc:
      return blend<U16>(mix_weight, count, partner, row);
    case Layout::kF16Nchw:
    case Layout::kF16Nhwc:
      return blend<F16>(mix_weight, count, partner, row);
    case Layout::kBf16Nchw:
    case Layout::kBf16Nhwc:
      return blend<Bf16>(mix_weight, count, partner, row);
    case Layout::kF32Nchw:
    case Layout::kF32Nhwc:
      return blend<F32>(mix_weight, count, partner, row);
  }
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "augment/render/mix_rows.h"

namespace penstock {
namespace detail {
namespace {

HWY_EXPORT(blend_rows);

void copy_rect(const Region& rect, Layout layout, const Extent& extent, const void* partner, void* row) {
  const bool is_planes = is_planar(layout);
  const size_t pixel_bytes = element_bytes(layout) * (is_planes ? 1 : extent.channels);
  const size_t line_bytes = pixel_bytes * extent.width;
  const size_t rect_bytes = pixel_bytes * rect.width;
  for (int plane = 0; plane < (is_planes ? extent.channels : 1); ++plane) {
    for (int y = rect.y; y < rect.y + rect.height; ++y) {
      const size_t at = (static_cast<size_t>(plane) * extent.height + y) * line_bytes + rect.x * pixel_bytes;
      std::memcpy(static_cast<uint8_t*>(row) + at, static_cast<const uint8_t*>(partner) + at, rect_bytes);
    }
  }
}

}  // namespace
}  // namespace detail

void mix_row(const BatchPlan& plan, Layout layout, const Extent& extent, const void* partner, void* row) {
  if (plan.kind == BatchMix::Kind::kCutmix) return detail::copy_rect(plan.rect, layout, extent, partner, row);
  const size_t count = rendered_bytes(layout, extent) / element_bytes(layout);
  HWY_DYNAMIC_DISPATCH(detail::blend_rows)(layout, plan.mix_weight, count, partner, row);
}

}  // namespace penstock
#endif  // HWY_ONCE
