// erase: overwrites a random rectangle with one value, or with noise (Zhong et al. 2017, Random Erasing), drawn as in
// torchvision (0.26).
//
// Deviation: `value` is on the picture's scale of 0..1 and is normalised with the picture, wherever normalize is in the
// list. torchvision erases after Normalize with a value that is normalised already; its value=0 there is value=mean
// here. With value=random every value is drawn from the standard normal distribution and is not normalised, as in
// torchvision, and in timm's RandomErasing (1.0) with mode "pixel"; with value=random-color every channel of the
// rectangle has one such value, as with timm's mode "rand".
#include <algorithm>
#include <cmath>
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

struct EraseRanges {
  double p = 0.5;
  Range area, log_ratio;  // fraction of the picture; ln(height / width)
  std::array<float, 3> level{};
  bool is_noise = false, is_one_color = false;
};

class Erase final : public Transform {
 public:
  explicit Erase(const EraseRanges& ranges) : ranges_(ranges) {}

  Effect effect() const override { return Effect::kErase; }
  bool makes_noise() const override { return ranges_.is_noise; }

  void edit(Plan& plan, Rng& rng) const override {
    if (!rng.chance(ranges_.p)) return;
    constexpr int kTries = 10;  // as in torchvision; after that the picture stays whole
    const double picture_area = static_cast<double>(plan.output_height) * plan.output_width;
    for (int i = 0; i < kTries; ++i) {
      const double area = picture_area * rng.uniform(ranges_.area.low, ranges_.area.high);
      // libm's exp() may differ in its last bit between machines. That matters only for a draw within 1e-15 of a
      // rounding border.
      const double ratio = std::exp(rng.uniform(ranges_.log_ratio.low, ranges_.log_ratio.high));
      const double height = std::nearbyint(std::sqrt(area * ratio)), width = std::nearbyint(std::sqrt(area / ratio));
      if (!(height < plan.output_height && width < plan.output_width)) continue;
      const int rows = static_cast<int>(height), columns = static_cast<int>(width);
      const int top = rng.between(0, plan.output_height - rows), left = rng.between(0, plan.output_width - columns);
      ErasedRect rect{top, left, top + rows, left + columns, ranges_.level};
      if (ranges_.is_noise) {
        const uint64_t high = rng.next();
        rect.noise_key = high << 32 | rng.next();
        rect.is_one_color = ranges_.is_one_color;
      }
      plan.erase(rect);
      return;
    }
  }

 private:
  EraseRanges ranges_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  EraseRanges ranges;
  ranges.p = detail::probability(spec, "p", 0.5);
  ranges.area = spec.get("scale", Range{0.02, 0.33});
  if (ranges.area.low < 0 || ranges.area.high > 1)
    throw config_error(concat(spec.where(), ": scale is ", ranges.area.low, ":", ranges.area.high,
                              "; expected fractions of the picture, 0 to 1"));
  const Range ratio = spec.get("ratio", Range{0.3, 3.3});
  if (ratio.low <= 0) throw config_error(concat(spec.where(), ": ratio is ", ratio.low, "; expected more than 0"));
  ranges.log_ratio = {std::log(ratio.low), std::log(ratio.high)};
  const std::string word = spec.get("value", "0");
  ranges.is_one_color = word == "random-color";
  ranges.is_noise = ranges.is_one_color || word == "random";
  if (ranges.is_noise) return std::make_unique<Erase>(ranges);
  if (word.find_first_not_of("0123456789.:+-eE") != std::string::npos)
    throw config_error(
        concat(spec.where(), ": value is ", in_quotes(word), "; expected V or R:G:B, random or random-color"));
  const auto values = spec.get("value", std::vector<double>{0});
  const auto channels = static_cast<size_t>(statistics.channels);
  if (values.size() != 1 && (values.size() != channels || channels > 3))
    throw config_error(concat(spec.where(), ": value has ", values.size(), " numbers; expected 1",
                              channels > 3 ? " for pictures of " : ", or one for each of ", channels, " channels"));
  for (size_t i = 0; i < 3; ++i)
    ranges.level[i] =
        static_cast<float>(statistics.white() * values[values.size() == 1 ? 0 : std::min(i, values.size() - 1)]);
  return std::make_unique<Erase>(ranges);
}

const Registered<TransformKind> kRegistered{
    "erase",
    {"p", "scale", "ratio", "value"},
    "overwrite a random rectangle with probability p (default 0.5): scale=low:high of the picture's area (0.02:0.33), "
    "ratio=low:high of height to width (0.3:3.3), value=V or R:G:B from 0 to 1, black to white (0), or value=random: "
    "noise of the standard normal distribution after normalize, or value=random-color: one such color",
    make,
    {.test_spec = "erase(p=0.7)"}};

}  // namespace
}  // namespace penstock
