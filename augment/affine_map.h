// affine_map(): the matrix of the affine transform for given parameters.
#pragma once

#include "augment/plan.h"

namespace penstock {

struct AffineParameters {
  double degrees = 0;                       // clockwise
  double translate_x = 0, translate_y = 0;  // pixels, after the rotation
  double scale = 1;
  double shear_x = 0, shear_y = 0;  // degrees
};

/// Output -> input for a picture of this size, about its centre: torchvision's _get_inverse_affine_matrix (0.26) with
/// centre (width / 2, height / 2), as it is for PIL pictures. Requires scale > 0 and |shear| < 90.
Affine affine_map(const AffineParameters& parameters, int height, int width);

}  // namespace penstock
