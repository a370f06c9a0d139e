// The points of render_raster(): a vector of them is sampled by gathering words. render_raster.cpp includes this file
// once for each instruction set.
#if defined(PENSTOCK_RASTER_POINTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_RASTER_POINTS_INL_H
#undef PENSTOCK_RASTER_POINTS_INL_H
#else
#define PENSTOCK_RASTER_POINTS_INL_H
#endif

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "augment/kernels/cubic_weights-inl.h"
#include "augment/kernels/render_vectors-inl.h"
#include "augment/pixels/picture.h"
#include "augment/plan/plan.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

/// Samples a vector of points as Sampler of render_lanes-inl.h does, but in the last column and row of the picture the
/// pixel itself stands for the one after it, which might be a NaN.
template <class T>
class PointSampler {
 public:
  struct Points {
    hn::Mask<D> is_inside;
    VI upper, right, down;  // offsets in bytes: of the upper left pixel, and from there
    V wx, wy;
  };

  struct CubicPoints {
    hn::Mask<D> is_inside;
    VI column[4], row[4];  // offsets in bytes: from the picture's first byte, and from the row's
    CubicWeights across, down;

    HWY_INLINE CubicPoints(V part_x, V part_y) : across(part_x), down(part_y) {}
  };

  /// `last_word`: the greatest offset at which 4 bytes may be read.
  PointSampler(const Picture& picture, const Plan& plan, uint32_t last_word)
      : words_(reinterpret_cast<const uint32_t*>(picture.pixels)),
        last_word_(hn::Set(DU(), last_word)),
        stride_(hn::Set(DI(), static_cast<int32_t>(picture.row_stride))),
        pixel_bytes_(hn::Set(DI(), static_cast<int32_t>(sizeof(T)) * picture.channels)),
        // Intermediate results may wrap around in 32 bits. The final offset fits, so it is right.
        origin_(hn::Set(
            DI(), static_cast<int32_t>(static_cast<uint32_t>(picture.y) * static_cast<uint32_t>(picture.row_stride) +
                                       static_cast<uint32_t>(picture.x) * static_cast<uint32_t>(picture.channels) *
                                           static_cast<uint32_t>(sizeof(T))))),
        width_(hn::Set(D(), static_cast<float>(plan.input_width))),
        height_(hn::Set(D(), static_cast<float>(plan.input_height))) {}

  template <Filter kFilter>
  HWY_INLINE Points at(V x, V y) const {
    const D d;
    const V zero = hn::Zero(d), half = hn::Set(d, 0.5F), one = hn::Set(d, 1.F);
    Points points;
    points.is_inside =
        hn::And(hn::And(hn::Ge(x, zero), hn::Lt(x, width_)), hn::And(hn::Ge(y, zero), hn::Lt(y, height_)));
    if constexpr (kFilter == Filter::kNearest) {
      points.upper = offset_of(hn::ConvertTo(DI(), x), hn::ConvertTo(DI(), y));
      return points;
    }
    const V last_x = hn::Sub(width_, one), last_y = hn::Sub(height_, one);
    const V u = hn::Min(hn::Max(hn::Sub(x, half), zero), last_x), v = hn::Min(hn::Max(hn::Sub(y, half), zero), last_y);
    const VI column = hn::ConvertTo(DI(), u), row = hn::ConvertTo(DI(), v);
    points.upper = offset_of(column, row);
    points.right = hn::IfThenElseZero(hn::Lt(column, hn::ConvertTo(DI(), last_x)), pixel_bytes_);
    points.down = hn::IfThenElseZero(hn::Lt(row, hn::ConvertTo(DI(), last_y)), stride_);
    points.wx = hn::Sub(u, hn::ConvertTo(d, column));
    points.wy = hn::Sub(v, hn::ConvertTo(d, row));
    return points;
  }

  /// As Sampler::bicubic().
  HWY_INLINE CubicPoints cubic_at(V x, V y) const {
    const D d;
    const V zero = hn::Zero(d), half = hn::Set(d, 0.5F), one = hn::Set(d, 1.F);
    const V last_x = hn::Sub(width_, one), last_y = hn::Sub(height_, one);
    const V u = hn::Sub(x, half), v = hn::Sub(y, half), left = hn::Floor(u), top = hn::Floor(v);
    CubicPoints points(hn::Sub(u, left), hn::Sub(v, top));
    points.is_inside =
        hn::And(hn::And(hn::Ge(x, zero), hn::Lt(x, width_)), hn::And(hn::Ge(y, zero), hn::Lt(y, height_)));
    for (int k = 0; k < 4; ++k) {
      const V step = hn::Set(d, static_cast<float>(k - 1));
      const VI column = hn::ConvertTo(DI(), hn::Min(hn::Max(hn::Add(left, step), zero), last_x));
      const VI row = hn::ConvertTo(DI(), hn::Min(hn::Max(hn::Add(top, step), zero), last_y));
      points.column[k] = hn::Mul(column, pixel_bytes_);
      points.row[k] = hn::Sub(hn::Mul(row, stride_), origin_);
    }
    return points;
  }

  HWY_INLINE V cubic_level(const CubicPoints& points, ptrdiff_t channel) const {
    const VI of_channel = hn::Set(DI(), static_cast<int32_t>(channel) * static_cast<int32_t>(sizeof(T)));
    V sum = hn::Zero(D());
    for (int k = 0; k < 4; ++k) {
      V levels[4];
      for (int j = 0; j < 4; ++j) levels[j] = level_of(hn::Add(hn::Add(points.row[k], points.column[j]), of_channel));
      const V term = hn::Mul(points.down.weight[k], points.across.sum(levels[0], levels[1], levels[2], levels[3]));
      sum = k == 0 ? term : hn::Add(sum, term);
    }
    if constexpr (std::is_integral_v<T>)
      sum = hn::Min(hn::Max(sum, hn::Zero(D())), hn::Set(D(), static_cast<float>(std::numeric_limits<T>::max())));
    return sum;
  }

  template <Filter kFilter>
  HWY_INLINE V level(const Points& points, ptrdiff_t channel) const {
    const VI upper_left =
        hn::Add(points.upper, hn::Set(DI(), static_cast<int32_t>(channel) * static_cast<int32_t>(sizeof(T))));
    if constexpr (kFilter == Filter::kNearest) {
      return level_of(upper_left);
    } else {
      const VI upper_right = hn::Add(upper_left, points.right);
      return mix(mix(level_of(upper_left), level_of(hn::Add(upper_left, points.down)), points.wy),
                 mix(level_of(upper_right), level_of(hn::Add(upper_right, points.down)), points.wy), points.wx);
    }
  }

 private:
  static HWY_INLINE V mix(V a, V b, V weight) { return hn::Add(a, hn::Mul(weight, hn::Sub(b, a))); }

  HWY_INLINE VI offset_of(VI column, VI row) const {
    return hn::Sub(hn::Add(hn::Mul(row, stride_), hn::Mul(column, pixel_bytes_)), origin_);
  }

  /// Whatever offset a lane outside of the picture has, no byte outside of it is read.
  HWY_INLINE V level_of(VI offset) const {
    const DU du;
    const VU wanted = hn::BitCast(du, offset), safe = hn::Min(wanted, last_word_);
    const VU read = hn::GatherOffset(du, words_, hn::BitCast(DI(), safe));
    const VU word = hn::Shr(read, hn::And(hn::ShiftLeft<3>(hn::Sub(wanted, safe)), hn::Set(du, 31U)));
    if constexpr (sizeof(T) == sizeof(float))
      return hn::BitCast(D(), word);
    else
      return hn::ConvertTo(D(), hn::BitCast(DI(), hn::And(word, hn::Set(du, sizeof(T) == 1 ? 0xFFU : 0xFFFFU))));
  }

  const uint32_t* words_;
  VU last_word_;
  VI stride_, pixel_bytes_, origin_;
  V width_, height_;
};

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
