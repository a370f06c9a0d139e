// cubic_weights(): the weights of the four pixels around a point along one axis, for Filter::kBicubic.
//
// a is -1, as in Pillow's Image.transform (Geometry.c, 13.0), and not the -0.5 of its Image.resize: the outer pixels
// pull twice as hard.
#pragma once

namespace penstock::detail {

/// `part`: how far the point lies from the centre of the second pixel towards that of the third, 0 to 1. The bits are
/// those of CubicWeights (augment/kernels/cubic_weights-inl.h).
inline void cubic_weights(float part, float (&weight)[4]) {
  const float rest = 1.f - part, square = part * part, both = part * rest;
  weight[0] = -(both * rest);                  // -p (1 - p)^2
  weight[1] = square * (part - 2.f) + 1.f;     // p^3 - 2 p^2 + 1
  weight[2] = part * ((1.f + part) - square);  // p + p^2 - p^3
  weight[3] = -(both * part);                  // -p^2 (1 - p)
}

}  // namespace penstock::detail
