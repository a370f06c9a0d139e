// The magnitudes of trivial-augment, in a header of their own so that tests can apply them.
#pragma once

#include "augment/draws/picture_op.h"

namespace penstock::detail {

constexpr int kTrivialOps = 14, kTrivialBins = 31;

constexpr FullMagnitude kTrivialMagnitude{
    .shear = 0.99, .translate_x = 32, .translate_y = 32, .degrees = 135, .factor = 0.99, .posterized_bits = 6};

/// The part of the full magnitude that bin 0 to kTrivialBins - 1 stands for.
constexpr double trivial_part(int bin) { return static_cast<double>(bin) / (kTrivialBins - 1); }

}  // namespace penstock::detail
