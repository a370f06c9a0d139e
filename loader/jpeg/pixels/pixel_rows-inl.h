// Upsampling and colour conversion of whole rows, bit for bit as in libjpeg's jdsample.c ("fancy" upsampling: a
// triangle filter with alternating roundings) and jdcolor.c. pixel_kernels.cpp includes this file once for each
// instruction set.
#if defined(PENSTOCK_PIXEL_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_PIXEL_ROWS_INL_H
#undef PENSTOCK_PIXEL_ROWS_INL_H
#else
#define PENSTOCK_PIXEL_ROWS_INL_H
#endif

#include "loader/jpeg/pixels/idct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

using DHalf8 = hn::Half<D8>;
constexpr int kLanes16 = static_cast<int>(hn::MaxLanes(D16()));
constexpr int kLanes8 = 2 * kLanes16;

/// Loads kLanes16 bytes as 16-bit lanes.
HWY_INLINE V16 widened(const uint8_t* in) { return hn::PromoteTo(D16(), hn::LoadU(DHalf8(), in)); }

HWY_INLINE V16 three_times(V16 v) { return hn::Add(v, hn::Add(v, v)); }

/// Interleaves and stores the levels (0 .. 255 in 16-bit lanes) of even and of odd pixels.
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

/// R = Y + round(1.402 Cr), B = Y + round(1.772 Cb), G = Y + round(-0.34414 Cb - 0.71414 Cr), each rounded from 16
/// fractional bits. The factors 13173 / 2^15 and -7471 / 2^15 give the same rounded result for every level as 26345 /
/// 2^16 and -14942 / 2^16.
HWY_INLINE Rgb16 converted(V16 y, V16 cb, V16 cr) {
  const D16 d;
  const D32 d32;
  const V16 red = hn::Add(cr, hn::MulFixedPoint15(cr, hn::Set(d, 13173)));
  const V16 blue = hn::Add(hn::Add(cb, cb), hn::MulFixedPoint15(cb, hn::Set(d, -7471)));
  // 0.71414 is 46802 / 2^16, which does not fit 16 bits. Therefore -0.71414 is computed as 0.28586 - 1.
  const V16 factors = weights(-22554, 65536 - 46802);
  const V32 rounding = hn::Set(d32, 1 << 15);
  const auto scaled = [&](V16 pair) HWY_ATTR { return hn::Add(pair_sum(pair, factors), rounding); };
  // The pairs (Cb, Cr) of even pixels, then those of odd pixels.
  const V32 even = scaled(hn::OddEven(hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(d32, cr))), cb));
  const V32 odd = scaled(hn::OddEven(cr, hn::BitCast(d, hn::ShiftRight<16>(hn::BitCast(d32, cb)))));
  const V16 green = merged<16>(even, odd);
  return {hn::Add(y, red), hn::Add(hn::Sub(y, cr), green), hn::Add(y, blue)};
}

/// For each byte of the three output vectors a, b and c, its place in the packed channels rg, br or gb. kNone (0x80)
/// means that the byte comes from another of these.
constexpr uint8_t kNone = 0x80;
struct ByteOrders {
  alignas(16) uint8_t a_rg[16] = {0, 8, kNone, 1, 9, kNone, 2, 10, kNone, 3, 11, kNone, 4, 12, kNone, 5};
  alignas(16) uint8_t a_br[16] = {kNone, kNone, 0,     kNone, kNone, 1,     kNone, kNone,
                                  2,     kNone, kNone, 3,     kNone, kNone, 4,     kNone};
  alignas(16) uint8_t b_rg[16] = {13,    kNone, 6,     14,    kNone, 7,     15,    kNone,
                                  kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  alignas(16) uint8_t b_br[16] = {kNone, 5,     kNone, kNone, 6,     kNone, kNone, 7,
                                  8,     kNone, kNone, 9,     kNone, kNone, 10,    kNone};
  alignas(16) uint8_t b_gb[16] = {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone,
                                  kNone, 0,     8,     kNone, 1,     9,     kNone, 2};
  alignas(16) uint8_t c_br[16] = {kNone, 11,    kNone, kNone, 12,    kNone, kNone, 13,
                                  kNone, kNone, 14,    kNone, kNone, 15,    kNone, kNone};
  alignas(16) uint8_t c_gb[16] = {10, kNone, 3, 11, kNone, 4, 12, kNone, 5, 13, kNone, 6, 14, kNone, 7, 15};
};

/// Clamps, interleaves and stores pixels. `a` holds pixels 0 .. 7 of each 128-bit part and `b` holds pixels 8 .. 15.
/// Because channels are packed in pairs, 7 byte shuffles are enough; three planes of bytes would take 9.
HWY_INLINE void store_rgb(const Rgb16& a, const Rgb16& b, uint8_t* out) {
  const D8 d;
  static constexpr ByteOrders kOrders;
  const V8 rg = packed(a.r, a.g), br = packed(a.b, b.r), gb = packed(b.g, b.b);
  const auto picked = [&](V8 v, const uint8_t* order)
                          HWY_ATTR { return hn::TableLookupBytesOr0(v, hn::LoadDup128(d, order)); };
  const V8 first = hn::Or(picked(rg, kOrders.a_rg), picked(br, kOrders.a_br));
  const V8 second = hn::Or(hn::Or(picked(rg, kOrders.b_rg), picked(br, kOrders.b_br)), picked(gb, kOrders.b_gb));
  const V8 third = hn::Or(picked(br, kOrders.c_br), picked(gb, kOrders.c_gb));
  hn::detail::StoreTransposedBlocks3(first, second, third, d, out);
}

void ycc_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, uint8_t* out) {
  const D8 d8;
  const D16 d;
  const V8 zero = hn::Zero(d8);
  const V16 center = hn::Set(d, 128);
  for (int i = 0; i < width; i += kLanes8) {
    const V8 y8 = hn::LoadU(d8, y + i), cb8 = hn::LoadU(d8, cb + i), cr8 = hn::LoadU(d8, cr + i);
    // The lower and the upper halves of the 128-bit parts are processed separately. packed() restores their order.
    const auto lower = [&](V8 v) HWY_ATTR { return hn::BitCast(d, hn::InterleaveLower(d8, v, zero)); };
    const auto upper = [&](V8 v) HWY_ATTR { return hn::BitCast(d, hn::InterleaveUpper(d8, v, zero)); };
    const Rgb16 a = converted(lower(y8), hn::Sub(lower(cb8), center), hn::Sub(lower(cr8), center));
    const Rgb16 b = converted(upper(y8), hn::Sub(upper(cb8), center), hn::Sub(upper(cr8), center));
    store_rgb(a, b, out + ptrdiff_t{3} * i);
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
