// trivial-augment: applies one of 14 operations at one of 31 magnitudes, both drawn evenly (Mueller & Hutter 2021), as
// torchvision's TrivialAugmentWide (0.26).
//
// Deviations: one plan has one filter and one fill, and colours come after all geometry (see Plan). Sums over the
// picture (contrast, auto-contrast, equalise) are those of the output.
#include "augment/draws/trivial_augment.h"

#include <memory>

#include "augment/transforms/policy.h"

namespace penstock {
namespace {

class TrivialAugment final : public detail::Policy {
 public:
  using Policy::Policy;

  int color_steps() const override { return 1; }

 private:
  void draw(Plan& plan, Rng& rng) const override {
    const auto op = static_cast<detail::PictureOp>(rng.between(0, detail::kTrivialOps - 1));
    const double part = detail::trivial_part(rng.between(0, detail::kTrivialBins - 1));
    take(op, part, rng.chance(0.5), detail::kTrivialMagnitude, plan);
  }
};

const Registered<TransformKind> kRegistered{
    "trivial-augment",
    {"filter", "interpolation", "fill"},
    "one random operation (identity, shear-x/y, translate-x/y, rotate, brightness, colour, contrast, sharpness, "
    "posterize, solarize, auto-contrast or equalize) at one of 31 magnitudes: "
    "interpolation=nearest|bilinear|bicubic|random (default "
    "nearest), fill=LEVEL from 0 to 255 (0)",
    [](const Spec& spec, const DataStatistics& statistics) {
      return std::make_unique<TrivialAugment>(spec, statistics);
    },
    {.test_spec = "trivial-augment"}};

}  // namespace
}  // namespace penstock
