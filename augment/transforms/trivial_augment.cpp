// trivial-augment: applies one of 14 operations at one of 31 magnitudes, both drawn evenly (Mueller & Hutter 2021), as
// torchvision's TrivialAugmentWide (0.26).
//
// Deviations: one plan has one filter and one fill, and colours come after all geometry (see Plan). Sums over the
// picture (contrast, auto-contrast, equalise) are those of the output.
#include "augment/detail/trivial_augment.h"

#include <memory>
#include <optional>

#include "augment/detail/arguments.h"
#include "augment/transform.h"

namespace penstock {
namespace detail {

void apply(const TrivialDraw& draw, Plan& plan) {
  constexpr FullMagnitude kWide{
      .shear = 0.99, .translate_x = 32, .translate_y = 32, .degrees = 135, .factor = 0.99, .posterized_bits = 6};
  const double size = static_cast<double>(draw.bin) / (kTrivialBins - 1);
  apply(draw.op, draw.is_negative && has_sign(draw.op) ? -size : size, kWide, plan);
}

}  // namespace detail

namespace {

class TrivialAugment final : public Transform {
 public:
  TrivialAugment(Filter filter, std::optional<float> fill) : filter_(filter), fill_(fill) {}

  int color_steps() const override { return 1; }

  void edit(Plan& plan, Rng& rng) const override {
    detail::TrivialDraw draw;
    draw.op = static_cast<detail::PictureOp>(rng.between(0, detail::kTrivialOps - 1));
    draw.bin = rng.between(0, detail::kTrivialBins - 1);
    draw.is_negative = rng.chance(0.5);
    detail::apply(draw, plan);
    if (detail::is_geometric(draw.op)) detail::use_filter(plan, filter_);
    if (fill_) plan.fill.fill(*fill_);
  }

 private:
  Filter filter_;
  std::optional<float> fill_;  // level; none: the plan's stays
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  return std::make_unique<TrivialAugment>(detail::filter(spec, "nearest", false), detail::fill(spec, statistics));
}

const Registered<TransformKind> kRegistered{
    "trivial-augment",
    {"filter", "interpolation", "fill"},
    "one random operation (identity, shear-x/y, translate-x/y, rotate, brightness, colour, contrast, sharpness, "
    "posterize, solarize, auto-contrast or equalize) at one of 31 magnitudes: filter=nearest|bilinear (default "
    "nearest), fill=LEVEL from 0 to 255 (0)",
    make,
    {.test_spec = "trivial-augment"}};

}  // namespace
}  // namespace penstock
