// rand-augment: applies `ops` operations at one magnitude, each drawn evenly from 14 (Cubuk et al. 2020, RandAugment),
// as torchvision's RandAugment (0.26) with 31 bins.
//
// `std` is that of timm's mstd: each operation has a magnitude of its own, normally distributed about `magnitude`,
// and limited to 0..30.
//
// Deviations: one plan has one filter and one fill, and colours come after all geometry (see Plan). Sums over the
// picture (contrast, auto-contrast, equalise) are those of the output.
#include <algorithm>
#include <memory>

#include "augment/draws/standard_normal.h"
#include "augment/transforms/policy.h"

namespace penstock {
namespace {

constexpr int kOps = 14;
constexpr double kMost = 30;  // torchvision's last bin, and its full magnitude

class RandAugment final : public detail::Policy {
 public:
  RandAugment(const Spec& spec, const DataStatistics& statistics, int ops, double magnitude, double deviation)
      : Policy(spec, statistics), ops_(ops), magnitude_(magnitude), deviation_(deviation) {}

  int color_steps() const override { return ops_; }

 private:
  void draw(Plan& plan, Rng& rng) const override {
    for (int i = 0; i < ops_; ++i) {
      const auto op = static_cast<detail::PictureOp>(rng.between(0, kOps - 1));
      const bool is_negative = rng.chance(0.5);
      double magnitude = magnitude_;
      if (deviation_ > 0) magnitude = std::clamp(magnitude + deviation_ * detail::standard_normal(rng), 0.0, kMost);
      take(op, magnitude / kMost, is_negative, detail::auto_augment_magnitude(plan, 31), plan);
    }
  }

  int ops_;
  double magnitude_, deviation_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  const int ops = spec.get("ops", 2);
  if (ops < 1 || ops > Plan::kMaxColorSteps)
    throw config_error(concat(spec.where(), ": ops is ", ops, "; expected 1 to ", Plan::kMaxColorSteps));
  const double magnitude = spec.get("magnitude", 9.0), deviation = spec.get("std", 0.0);
  if (!(magnitude >= 0 && magnitude <= kMost))
    throw config_error(concat(spec.where(), ": magnitude is ", magnitude, "; expected 0 to ", kMost));
  if (!(deviation >= 0 && deviation <= 100))
    throw config_error(concat(spec.where(), ": std is ", deviation, "; expected 0 to 100"));
  return std::make_unique<RandAugment>(spec, statistics, ops, magnitude, deviation);
}

const Registered<TransformKind> kRegistered{
    "rand-augment",
    {"ops", "magnitude", "std", "filter", "interpolation", "fill"},
    "ops=N random operations (1 to 8, default 2) of those of trivial-augment, each at magnitude=M from 0 to 30 (9), "
    "which "
    "varies by std=S (0): interpolation=nearest|bilinear|bicubic|random (default nearest), fill=LEVEL from 0 to 255 "
    "(0)",
    make,
    {.test_spec = "rand-augment"}};

}  // namespace
}  // namespace penstock
