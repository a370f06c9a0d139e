// timm-rand-augment: timm's RandAugment (1.0), by the text that timm's flag --aa takes, such as rand-m9-mstd0.5-inc1:
// each of n operations, drawn evenly from 15, is applied with probability p at magnitude m.
//
// Deviations: one plan has one filter and one fill, and colours come after all geometry (see Plan). Sums over the
// picture (contrast, auto-contrast, equalise) are those of the output. timm's sets of other transforms (-t) are
// refused.
#include <algorithm>
#include <charconv>
#include <memory>
#include <string>

#include "augment/draws/standard_normal.h"
#include "augment/draws/timm_op.h"
#include "augment/transforms/policy.h"

namespace penstock {
namespace {

/// The numbers of a text such as rand-m9-n2-p0.5-mstd0.5-mmax10-inc1, with timm's defaults.
struct TimmConfig {
  double magnitude = 10, deviation = 0, most = 10, p = 0.5;
  int ops = 2;
  bool increases = false;
};

constexpr double kUniform = 100;  // with a greater mstd, magnitudes are drawn evenly from 0 to m

Error wrong_config(const Spec& spec) {
  return config_error(concat(spec.where(), ": config is ", in_quotes(spec.get("config", "")),
                             "; expected rand, and any of -m0 to 100, -n1 to ", Plan::kMaxColorSteps,
                             ", -p0 to 1, -mstd0 or more, -mmax1 to 100 and -inc0 or 1, such as rand-m9-mstd0.5-inc1"));
}

/// Reads one part, such as mstd0.5.
void read_part(const Spec& spec, const std::string& part, TimmConfig& config) {
  const auto digits = std::min(part.find_first_of("0123456789"), part.size());
  const std::string key = part.substr(0, digits);
  double value = 0;
  const auto [end, code] = std::from_chars(part.data() + digits, part.data() + part.size(), value);
  const bool is_number = code == std::errc() && end == part.data() + part.size();
  const auto is_within = [&](double low, double high, bool is_whole) {
    return is_number && value >= low && value <= high && (!is_whole || value == static_cast<int>(value));
  };
  if (key == "m" && is_within(0, 100, true)) {
    config.magnitude = value;
  } else if (key == "n" && is_within(1, Plan::kMaxColorSteps, true)) {
    config.ops = static_cast<int>(value);
  } else if (key == "p" && is_within(0, 1, false)) {
    config.p = value;
  } else if (key == "mstd" && is_within(0, 1e9, false)) {
    config.deviation = value;
  } else if (key == "mmax" && is_within(1, 100, true)) {
    config.most = value;
  } else if (key == "inc" && is_within(0, 1, true)) {
    config.increases = value == 1;
  } else {
    throw wrong_config(spec);
  }
}

TimmConfig config_of(const Spec& spec) {
  const auto parts = split(spec.get("config", "rand-m9-mstd0.5-inc1"), '-');
  if (parts[0] != "rand") throw wrong_config(spec);
  TimmConfig config;
  for (size_t i = 1; i < parts.size(); ++i) read_part(spec, parts[i], config);
  return config;
}

/// One level for all channels, or one for each. timm's default is the middle, its training script's the data's mean.
std::array<float, 3> fill_of(const Spec& spec) {
  const auto values = spec.get("fill", std::vector<double>{128});
  const bool are_levels = std::all_of(values.begin(), values.end(), [](double v) { return v >= 0 && v <= 255; });
  if ((values.size() != 1 && values.size() != 3) || !are_levels)
    throw config_error(
        concat(spec.where(), ": fill is ", in_quotes(spec.get("fill", "")), "; expected 1 or 3 levels from 0 to 255"));
  std::array<float, 3> levels{};
  for (size_t i = 0; i < 3; ++i) levels[i] = static_cast<float>(values[values.size() == 1 ? 0 : i]);
  return levels;
}

class TimmRandAugment final : public detail::Policy {
 public:
  explicit TimmRandAugment(const Spec& spec)
      : Policy(detail::filter(spec, "bilinear", false), fill_of(spec)), config_(config_of(spec)) {}

  int color_steps() const override { return config_.ops; }

 private:
  void draw(Plan& plan, Rng& rng) const override {
    for (int i = 0; i < config_.ops; ++i) {
      detail::TimmDraw drawn{.increases = config_.increases};
      drawn.op = static_cast<detail::TimmOp>(rng.between(0, detail::kTimmOps - 1));
      drawn.is_negative = rng.chance(0.5);
      drawn.magnitude = std::clamp(magnitude(rng), 0.0, config_.most);
      if (!rng.chance(config_.p)) continue;
      detail::apply(drawn, plan);
      if (detail::is_geometric(drawn.op)) detail::use_filter(plan, moving_filter());
    }
  }

  double magnitude(Rng& rng) const {
    if (config_.deviation > kUniform) return rng.uniform(0, config_.magnitude);
    if (config_.deviation == 0) return config_.magnitude;
    return config_.magnitude + config_.deviation * detail::standard_normal(rng);
  }

  TimmConfig config_;
};

const Registered<TransformKind> kRegistered{
    "timm-rand-augment",
    {"config", "filter", "interpolation", "fill"},
    "timm's RandAugment by its text: config=rand-m9-mstd0.5-inc1 (the default; also -n, -p, -mmax), "
    "interpolation=bilinear|nearest|bicubic|random (default bilinear), fill=LEVEL or R:G:B from 0 to 255 (128)",
    [](const Spec& spec, const DataStatistics&) { return std::make_unique<TimmRandAugment>(spec); },
    {.test_spec = "timm-rand-augment"}};

}  // namespace
}  // namespace penstock
