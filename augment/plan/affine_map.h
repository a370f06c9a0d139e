// affine_map(): the matrix of the affine transform for given parameters.
#pragma once

#include "augment/plan/plan.h"

namespace penstock {

struct AffineParameters {
  double degrees = 0;                       // clockwise
  double translate_x = 0, translate_y = 0;  // pixels, after the rotation
  double scale = 1;
  double shear_x = 0, shear_y = 0;  // degrees
};

/// The map from output to input coordinates for a picture of this size, about its centre. It equals torchvision's
/// _get_inverse_affine_matrix (0.26) with the centre (width / 2, height / 2), which torchvision uses for PIL pictures.
/// Requires scale > 0 and |shear| < 90.
Affine affine_map(const AffineParameters& parameters, int height, int width);

}  // namespace penstock
