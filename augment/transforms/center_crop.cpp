// center-crop: cuts out the middle of the picture. A smaller picture is surrounded by fill (zero unless an affine gave
// another level). Unequal margins are rounded as in torchvision (0.26): half to even for a crop, down for a padding.
#include <cmath>
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

/// The picture's coordinate at which the crop begins. A negative one means that so many pixels are padded.
double crop_begin(int size, int crop) {
  return crop > size ? -((crop - size) / 2) : std::nearbyint((size - crop) / 2.0);
}

class CenterCrop final : public Transform {
 public:
  CenterCrop(int height, int width) : height_(height), width_(width) {}

  void edit(Plan& plan, Rng&) const override {
    const double x = crop_begin(plan.output_width, width_), y = crop_begin(plan.output_height, height_);
    plan.resample(Affine::translation(x, y), height_, width_);
  }

 private:
  int height_, width_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  const detail::Size size = detail::size(spec);
  return std::make_unique<CenterCrop>(size.height, size.width);
}

const Registered<TransformKind> kRegistered{
    "center-crop",
    {"size", "height", "width"},
    "cut out the middle: a square of size=PIXELS, or height=PIXELS,width=PIXELS; a smaller picture is padded",
    make,
    {.test_spec = "center-crop(size=9)", .is_deterministic = true, .sets_size = true}};

}  // namespace
}  // namespace penstock
