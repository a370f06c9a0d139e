// log_gamma_draw(): one number of a gamma distribution from a stream. Beta's and Dirichlet's numbers are made of them.
#pragma once

#include "core/rng.h"

namespace penstock::detail {

/// The logarithm of a draw of Gamma(shape, 1): a draw for shape + 1 (Marsaglia & Tsang 2000), multiplied by u^(1 /
/// shape) (their sec. 6). The computation is in logarithms because u^(1 / shape) rounds to 0 in f64 when the shape is
/// small.
double log_gamma_draw(double shape, Rng& rng);

}  // namespace penstock::detail
