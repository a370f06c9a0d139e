// color-jitter: changes brightness, contrast, saturation and hue by random amounts in random order, as torchvision's
// ColorJitter (0.26) on f32 tensors: levels are clamped after each of the four, and are not rounded to whole levels as
// on u8 tensors.
//
// Deviation: the mean with which contrast blends is that of the output, so that a list which crops after color-jitter
// takes it from the crop.
#include <memory>
#include <optional>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

constexpr std::array kOps{ColorOp::kBrightness, ColorOp::kContrast, ColorOp::kSaturation, ColorOp::kHue};
constexpr std::array kKeys{"brightness", "contrast", "saturation", "hue"};
using Amounts = std::array<std::optional<Range>, 4>;  // one entry per operation; without a value it is left out

class ColorJitter final : public Transform {
 public:
  explicit ColorJitter(const Amounts& amounts) : amounts_(amounts) {}

  Effect effect() const override { return Effect::kColor; }

  int color_steps() const override {
    return static_cast<int>(
        std::count_if(amounts_.begin(), amounts_.end(), [](const auto& a) { return a.has_value(); }));
  }

  void edit(Plan& plan, Rng& rng) const override {
    std::array<size_t, 4> order{0, 1, 2, 3};
    for (int i = 3; i > 0; --i) std::swap(order[i], order[rng.between(0, i)]);
    std::array<double, 4> drawn{};
    for (size_t i = 0; i < 4; ++i)
      if (amounts_[i]) drawn[i] = rng.uniform(amounts_[i]->low, amounts_[i]->high);
    for (const size_t i : order)
      if (amounts_[i]) plan.adjust(kOps[i], static_cast<float>(drawn[i]));
  }

 private:
  Amounts amounts_;
};

/// `v` means center - v to center + v; `low:high` means that range.
Range amount(const Spec& spec, const char* key, bool is_hue) {
  const auto values = detail::numbers(spec, key, {1, 2});
  const double center = is_hue ? 0 : 1;
  Range range{values.front(), values.back()};
  if (values.size() == 1) range = {is_hue ? -values[0] : std::max(center - values[0], 0.0), center + values[0]};
  if (values.size() == 1 ? values[0] < 0 || (is_hue && values[0] > 0.5)
                         : range.low > range.high || range.low < (is_hue ? -0.5 : 0) || (is_hue && range.high > 0.5))
    throw config_error(concat(spec.where(), ": ", key, " is ", spec.get(key, ""), "; expected ",
                              is_hue ? "0 to 0.5, or low:high within -0.5:0.5" : "0 or more, or low:high of factors"));
  return range;
}

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  Amounts amounts;
  for (size_t i = 0; i < 4; ++i)
    if (spec.has(kKeys[i])) amounts[i] = amount(spec, kKeys[i], kOps[i] == ColorOp::kHue);
  if (std::none_of(amounts.begin(), amounts.end(), [](const auto& a) { return a.has_value(); }))
    throw config_error(
        concat(spec.where(), ": no amount is given; expected one of brightness, contrast, saturation, hue at least"));
  return std::make_unique<ColorJitter>(amounts);
}

const Registered<TransformKind> kRegistered{
    "color-jitter",
    {"brightness", "contrast", "saturation", "hue"},
    "change colours at random, in random order: brightness=V, contrast=V, saturation=V by a factor of 1-V to 1+V, or "
    "low:high; hue=V by -V to V turns of the HSV circle, or low:high, V up to 0.5 (default of each: no change)",
    make,
    {.test_spec = "color-jitter(brightness=0.4,contrast=0.4)"}};

}  // namespace
}  // namespace penstock
