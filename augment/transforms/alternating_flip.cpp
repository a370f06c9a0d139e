// alternating-flip: mirrors each picture in every second epoch (Jordan 2024, "94% on CIFAR-10 in 3.29 seconds on a
// single GPU", arXiv:2404.00498, sec. 3.6). A random flip shows a picture the same way as in the epoch before half of
// the time; with this one, any two epochs that follow each other show it both ways. A second one would mirror it back
// in the same epochs, and a random flip beside it would make the ways random again, so both are refused.
#include <memory>

#include "augment/transform.h"

namespace penstock {
namespace {

class AlternatingFlip final : public Transform {
 public:
  bool alternates() const override { return true; }
  bool mirrors() const override { return true; }
  /// Which way a picture is shown first is drawn once.
  void edit(Plan& plan, Rng& rng) const override {
    if (rng.chance(0.5)) alternate(plan);
  }
  void alternate(Plan& plan) const override {
    const double width = plan.output_width;
    plan.resample({-1, 0, width, 0, 1, 0}, plan.output_height, plan.output_width);
  }
};

const Registered<TransformKind> kAlternatingFlip{
    "alternating-flip",
    {},
    "mirror left and right in every second epoch: half of the pictures in the even ones, the others in the odd ones",
    [](const Spec&, const DataStatistics&) { return std::make_unique<AlternatingFlip>(); },
    {.test_spec = "alternating-flip", .excludes = {"alternating-flip", "flip"}}};

}  // namespace
}  // namespace penstock
