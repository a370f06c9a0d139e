// Upsampling and colour of whole rows. Included once for each instruction set by pixel_kernels.cpp. libjpeg's
// jdsample.c ("fancy": a triangle filter with alternating roundings) and jdcolor.c, to the bit.
#if defined(PENSTOCK_PIXEL_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_PIXEL_ROWS_INL_H
#undef PENSTOCK_PIXEL_ROWS_INL_H
#else
#define PENSTOCK_PIXEL_ROWS_INL_H
#endif

#include "loader/jpeg/idct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

using DHalf8 = hn::Half<D8>;
constexpr int kLanes16 = static_cast<int>(hn::MaxLanes(D16()));
constexpr int kLanes8 = 2 * kLanes16;

/// kLanes16 bytes as 16-bit lanes.
HWY_INLINE V16 widened(const uint8_t* in) { return hn::PromoteTo(D16(), hn::LoadU(DHalf8(), in)); }

HWY_INLINE V16 three_times(V16 v) { return hn::Add(v, hn::Add(v, v)); }

/// Levels 0 .. 255 in 16-bit lanes: even pixels' and odd pixels'.
HWY_INLINE void store_pairs(V16 even, V16 odd, uint8_t* out) {
  hn::StoreU(hn::BitCast(D8(), hn::Or(even, hn::ShiftLeft<8>(odd))), D8(), out);
}

void blend_rows(const uint8_t* nearer, const uint8_t* farther, int bias, int count, uint8_t* out) {
  const D16 d;
  const V16 rounding = hn::Set(d, static_cast<int16_t>(bias));
  for (int i = 0; i < count; i += kLanes16) {
    const V16 sum = hn::Add(hn::Add(three_times(widened(nearer + i)), widened(farther + i)), rounding);
    hn::StoreU(hn::DemoteTo(DHalf8(), hn::ShiftRight<2>(sum)), DHalf8(), out + i);
  }
}

void double_row(const uint8_t* in, int count, uint8_t* out) {
  const D16 d;
  for (int i = 0; i < count; i += kLanes16) {
    const V16 center = three_times(widened(in + i));
    const V16 even = hn::Add(hn::Add(center, widened(in + i - 1)), hn::Set(d, 1));
    const V16 odd = hn::Add(hn::Add(center, widened(in + i + 1)), hn::Set(d, 2));
    store_pairs(hn::ShiftRight<2>(even), hn::ShiftRight<2>(odd), out + 2 * i);
  }
}

void double_rows(const uint8_t* nearer, const uint8_t* farther, int count, int16_t* sums, uint8_t* out) {
  const D16 d;
  for (int i = 0; i < count + 2; i += kLanes16)
    hn::StoreU(hn::Add(three_times(widened(nearer + i - 1)), widened(farther + i - 1)), d, sums + i);
  for (int i = 0; i < count; i += kLanes16) {
    const V16 center = three_times(hn::LoadU(d, sums + i + 1));
    const V16 even = hn::Add(hn::Add(center, hn::LoadU(d, sums + i)), hn::Set(d, 8));
    const V16 odd = hn::Add(hn::Add(center, hn::LoadU(d, sums + i + 2)), hn::Set(d, 7));
    store_pairs(hn::ShiftRight<4>(even), hn::ShiftRight<4>(odd), out + 2 * i);
  }
}

struct Rgb16 {
  V16 r, g, b;
};

/// R = Y + round(1.402 Cr), B = Y + round(1.772 Cb), G = Y + round(-0.34414 Cb - 0.71414 Cr), all rounded from 16 bits
/// after the point. 13173 / 2^15 and -7471 / 2^15 round every level as 26345 / 2^16 and -14942 / 2^16 do.
HWY_INLINE Rgb16 converted(V16 y, V16 cb, V16 cr) {
  const D16 d;
  const D32 d32;
  const V16 red = hn::Add(cr, hn::MulFixedPoint15(cr, hn::Set(d, 13173)));
  const V16 blue = hn::Add(hn::Add(cb, cb), hn::MulFixedPoint15(cb, hn::Set(d, -7471)));
  // -0.71414 = 0.28586 - 1: 46802 is beyond 16 bits.
  const V16 factors = weights(-22554, 65536 - 46802);
  const V32 rounding = hn::Set(d32, 1 << 15);
  const auto scaled = [&](V16 pair) HWY_ATTR { return hn::Add(pair_sum(pair, factors), rounding); };
  // Even pixels' pairs (Cb, Cr), then odd ones'.
  const V32 even = scaled(hn::OddEven(hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(d32, cr))), cb));
  const V32 odd = scaled(hn::OddEven(cr, hn::BitCast(d, hn::ShiftRight<16>(hn::BitCast(d32, cb)))));
  const V16 green = merged<16>(even, odd);
  return {hn::Add(y, red), hn::Add(hn::Sub(y, cr), green), hn::Add(y, blue)};
}

void ycc_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, uint8_t* out) {
  const D8 d8;
  const D16 d;
  const V8 zero = hn::Zero(d8);
  const V16 center = hn::Set(d, 128);
  for (int i = 0; i < width; i += kLanes8) {
    const V8 y8 = hn::LoadU(d8, y + i), cb8 = hn::LoadU(d8, cb + i), cr8 = hn::LoadU(d8, cr + i);
    // Lower and upper halves of the 128-bit parts: packed() puts them back in order.
    const auto lower = [&](V8 v) HWY_ATTR { return hn::BitCast(d, hn::InterleaveLower(d8, v, zero)); };
    const auto upper = [&](V8 v) HWY_ATTR { return hn::BitCast(d, hn::InterleaveUpper(d8, v, zero)); };
    const Rgb16 a = converted(lower(y8), hn::Sub(lower(cb8), center), hn::Sub(lower(cr8), center));
    const Rgb16 b = converted(upper(y8), hn::Sub(upper(cb8), center), hn::Sub(upper(cr8), center));
    hn::StoreInterleaved3(packed(a.r, b.r), packed(a.g, b.g), packed(a.b, b.b), d8, out + ptrdiff_t{3} * i);
  }
}

void interleave(const uint8_t* r, const uint8_t* g, const uint8_t* b, int width, uint8_t* out) {
  const D8 d8;
  for (int i = 0; i < width; i += kLanes8)
    hn::StoreInterleaved3(hn::LoadU(d8, r + i), hn::LoadU(d8, g + i), hn::LoadU(d8, b + i), d8, out + ptrdiff_t{3} * i);
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PENSTOCK_PIXEL_ROWS_INL_H
