// Moments: what Adam and its relatives have in common.
#pragma once

#include "core/spec.h"

namespace penstock::detail {

/// Running means of gradients and of their squares keep `beta1` and `beta2` of their value per step. `eps` is added to
/// the root of the second, so that no update is divided by 0.
struct MomentOptions {
  double beta1, beta2, eps;
};

/// From the keys of those names; the defaults are 0.9, 0.999 and `eps`. Throws config_error for a decay rate that is
/// not in [0, 1), and for an eps below 0.
MomentOptions read_moments(const Spec& spec, double eps);

}  // namespace penstock::detail
