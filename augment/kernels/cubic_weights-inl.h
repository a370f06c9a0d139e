// CubicWeights: cubic_weights() of augment/pixels/cubic_weights.h for a vector of points. render_rows.cpp and
// render_raster.cpp include this file once for each instruction set.
#if defined(PENSTOCK_CUBIC_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_CUBIC_WEIGHTS_INL_H
#undef PENSTOCK_CUBIC_WEIGHTS_INL_H
#else
#define PENSTOCK_CUBIC_WEIGHTS_INL_H
#endif

#include "augment/kernels/render_vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

struct CubicWeights {
  V weight[4];

  explicit HWY_INLINE CubicWeights(V part) {
    const D d;
    const V one = hn::Set(d, 1.f), two = hn::Set(d, 2.f), rest = hn::Sub(one, part), square = hn::Mul(part, part);
    const V both = hn::Mul(part, rest);
    weight[0] = hn::Neg(hn::Mul(both, rest));
    weight[1] = hn::Add(hn::Mul(square, hn::Sub(part, two)), one);
    weight[2] = hn::Mul(part, hn::Sub(hn::Add(one, part), square));
    weight[3] = hn::Neg(hn::Mul(both, part));
  }

  HWY_INLINE V sum(V a, V b, V c, V e) const {
    const V first = hn::Add(hn::Mul(weight[0], a), hn::Mul(weight[1], b));
    return hn::Add(hn::Add(first, hn::Mul(weight[2], c)), hn::Mul(weight[3], e));
  }
};

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
