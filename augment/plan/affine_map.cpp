// affine_map(): rotation, scale, shear and translation in one matrix.
#include "augment/plan/affine_map.h"

#include "augment/plan/angle.h"

namespace penstock {

Affine affine_map(const AffineParameters& parameters, int height, int width) {
  const auto rotation = detail::sin_cos(parameters.degrees);
  const auto shear_x = detail::sin_cos(parameters.shear_x), shear_y = detail::sin_cos(parameters.shear_y);
  const auto slanted = detail::sin_cos(parameters.degrees - parameters.shear_y);
  const double tan_x = shear_x.sin / shear_x.cos;
  // [a b; c d] = R(degrees) * ShearY * ShearX. Its determinant is 1.
  const double a = slanted.cos / shear_y.cos;
  const double b = -slanted.cos * tan_x / shear_y.cos - rotation.sin;
  const double c = slanted.sin / shear_y.cos;
  const double d = -slanted.sin * tan_x / shear_y.cos + rotation.cos;

  Affine map{d / parameters.scale, -b / parameters.scale, 0, -c / parameters.scale, a / parameters.scale, 0};
  const double center_x = width * 0.5, center_y = height * 0.5;
  const double from_x = center_x + parameters.translate_x, from_y = center_y + parameters.translate_y;
  map.x0 = center_x - (map.xx * from_x + map.xy * from_y);
  map.y0 = center_y - (map.yx * from_x + map.yy * from_y);
  return map;
}

}  // namespace penstock
