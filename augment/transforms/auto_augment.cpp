// auto-augment: one of 25 learned pairs of operations, each applied with a probability of its own (Cubuk et al. 2019,
// AutoAugment, tables 7 to 9), as torchvision's AutoAugment (0.26).
//
// Deviations: one plan has one filter and one fill, and colours come after all geometry (see Plan). Sums over the
// picture (contrast, auto-contrast, equalise) are those of the output.
#include <array>
#include <memory>

#include "augment/transforms/policy.h"

namespace penstock {
namespace {

using detail::PictureOp;

struct PolicyOp {
  PictureOp op = PictureOp::kIdentity;
  double p = 0;
  int magnitude = 0;  // 0 to 9, the full one
};
using SubPolicy = std::array<PolicyOp, 2>;
using SubPolicies = std::array<SubPolicy, 25>;

constexpr SubPolicies kImageNet{{SubPolicy{{{PictureOp::kPosterize, 0.4, 8}, {PictureOp::kRotate, 0.6, 9}}},
                                 SubPolicy{{{PictureOp::kSolarize, 0.6, 5}, {PictureOp::kAutoContrast, 0.6, 0}}},
                                 SubPolicy{{{PictureOp::kEqualize, 0.8, 0}, {PictureOp::kEqualize, 0.6, 0}}},
                                 SubPolicy{{{PictureOp::kPosterize, 0.6, 7}, {PictureOp::kPosterize, 0.6, 6}}},
                                 SubPolicy{{{PictureOp::kEqualize, 0.4, 0}, {PictureOp::kSolarize, 0.2, 4}}},
                                 SubPolicy{{{PictureOp::kEqualize, 0.4, 0}, {PictureOp::kRotate, 0.8, 8}}},
                                 SubPolicy{{{PictureOp::kSolarize, 0.6, 3}, {PictureOp::kEqualize, 0.6, 0}}},
                                 SubPolicy{{{PictureOp::kPosterize, 0.8, 5}, {PictureOp::kEqualize, 1.0, 0}}},
                                 SubPolicy{{{PictureOp::kRotate, 0.2, 3}, {PictureOp::kSolarize, 0.6, 8}}},
                                 SubPolicy{{{PictureOp::kEqualize, 0.6, 0}, {PictureOp::kPosterize, 0.4, 6}}},
                                 SubPolicy{{{PictureOp::kRotate, 0.8, 8}, {PictureOp::kColor, 0.4, 0}}},
                                 SubPolicy{{{PictureOp::kRotate, 0.4, 9}, {PictureOp::kEqualize, 0.6, 0}}},
                                 SubPolicy{{{PictureOp::kEqualize, 0.0, 0}, {PictureOp::kEqualize, 0.8, 0}}},
                                 SubPolicy{{{PictureOp::kInvert, 0.6, 0}, {PictureOp::kEqualize, 1.0, 0}}},
                                 SubPolicy{{{PictureOp::kColor, 0.6, 4}, {PictureOp::kContrast, 1.0, 8}}},
                                 SubPolicy{{{PictureOp::kRotate, 0.8, 8}, {PictureOp::kColor, 1.0, 2}}},
                                 SubPolicy{{{PictureOp::kColor, 0.8, 8}, {PictureOp::kSolarize, 0.8, 7}}},
                                 SubPolicy{{{PictureOp::kSharpness, 0.4, 7}, {PictureOp::kInvert, 0.6, 0}}},
                                 SubPolicy{{{PictureOp::kShearX, 0.6, 5}, {PictureOp::kEqualize, 1.0, 0}}},
                                 SubPolicy{{{PictureOp::kColor, 0.4, 0}, {PictureOp::kEqualize, 0.6, 0}}},
                                 SubPolicy{{{PictureOp::kEqualize, 0.4, 0}, {PictureOp::kSolarize, 0.2, 4}}},
                                 SubPolicy{{{PictureOp::kSolarize, 0.6, 5}, {PictureOp::kAutoContrast, 0.6, 0}}},
                                 SubPolicy{{{PictureOp::kInvert, 0.6, 0}, {PictureOp::kEqualize, 1.0, 0}}},
                                 SubPolicy{{{PictureOp::kColor, 0.6, 4}, {PictureOp::kContrast, 1.0, 8}}},
                                 SubPolicy{{{PictureOp::kEqualize, 0.8, 0}, {PictureOp::kEqualize, 0.6, 0}}}}};

constexpr SubPolicies kCifar10{{SubPolicy{{{PictureOp::kInvert, 0.1, 0}, {PictureOp::kContrast, 0.2, 6}}},
                                SubPolicy{{{PictureOp::kRotate, 0.7, 2}, {PictureOp::kTranslateX, 0.3, 9}}},
                                SubPolicy{{{PictureOp::kSharpness, 0.8, 1}, {PictureOp::kSharpness, 0.9, 3}}},
                                SubPolicy{{{PictureOp::kShearY, 0.5, 8}, {PictureOp::kTranslateY, 0.7, 9}}},
                                SubPolicy{{{PictureOp::kAutoContrast, 0.5, 0}, {PictureOp::kEqualize, 0.9, 0}}},
                                SubPolicy{{{PictureOp::kShearY, 0.2, 7}, {PictureOp::kPosterize, 0.3, 7}}},
                                SubPolicy{{{PictureOp::kColor, 0.4, 3}, {PictureOp::kBrightness, 0.6, 7}}},
                                SubPolicy{{{PictureOp::kSharpness, 0.3, 9}, {PictureOp::kBrightness, 0.7, 9}}},
                                SubPolicy{{{PictureOp::kEqualize, 0.6, 0}, {PictureOp::kEqualize, 0.5, 0}}},
                                SubPolicy{{{PictureOp::kContrast, 0.6, 7}, {PictureOp::kSharpness, 0.6, 5}}},
                                SubPolicy{{{PictureOp::kColor, 0.7, 7}, {PictureOp::kTranslateX, 0.5, 8}}},
                                SubPolicy{{{PictureOp::kEqualize, 0.3, 0}, {PictureOp::kAutoContrast, 0.4, 0}}},
                                SubPolicy{{{PictureOp::kTranslateY, 0.4, 3}, {PictureOp::kSharpness, 0.2, 6}}},
                                SubPolicy{{{PictureOp::kBrightness, 0.9, 6}, {PictureOp::kColor, 0.2, 8}}},
                                SubPolicy{{{PictureOp::kSolarize, 0.5, 2}, {PictureOp::kInvert, 0.0, 0}}},
                                SubPolicy{{{PictureOp::kEqualize, 0.2, 0}, {PictureOp::kAutoContrast, 0.6, 0}}},
                                SubPolicy{{{PictureOp::kEqualize, 0.2, 0}, {PictureOp::kEqualize, 0.6, 0}}},
                                SubPolicy{{{PictureOp::kColor, 0.9, 9}, {PictureOp::kEqualize, 0.6, 0}}},
                                SubPolicy{{{PictureOp::kAutoContrast, 0.8, 0}, {PictureOp::kSolarize, 0.2, 8}}},
                                SubPolicy{{{PictureOp::kBrightness, 0.1, 3}, {PictureOp::kColor, 0.7, 0}}},
                                SubPolicy{{{PictureOp::kSolarize, 0.4, 5}, {PictureOp::kAutoContrast, 0.9, 0}}},
                                SubPolicy{{{PictureOp::kTranslateY, 0.9, 9}, {PictureOp::kTranslateY, 0.7, 9}}},
                                SubPolicy{{{PictureOp::kAutoContrast, 0.9, 0}, {PictureOp::kSolarize, 0.8, 3}}},
                                SubPolicy{{{PictureOp::kEqualize, 0.8, 0}, {PictureOp::kInvert, 0.1, 0}}},
                                SubPolicy{{{PictureOp::kTranslateY, 0.7, 9}, {PictureOp::kAutoContrast, 0.9, 0}}}}};

constexpr SubPolicies kSvhn{{SubPolicy{{{PictureOp::kShearX, 0.9, 4}, {PictureOp::kInvert, 0.2, 0}}},
                             SubPolicy{{{PictureOp::kShearY, 0.9, 8}, {PictureOp::kInvert, 0.7, 0}}},
                             SubPolicy{{{PictureOp::kEqualize, 0.6, 0}, {PictureOp::kSolarize, 0.6, 6}}},
                             SubPolicy{{{PictureOp::kInvert, 0.9, 0}, {PictureOp::kEqualize, 0.6, 0}}},
                             SubPolicy{{{PictureOp::kEqualize, 0.6, 0}, {PictureOp::kRotate, 0.9, 3}}},
                             SubPolicy{{{PictureOp::kShearX, 0.9, 4}, {PictureOp::kAutoContrast, 0.8, 0}}},
                             SubPolicy{{{PictureOp::kShearY, 0.9, 8}, {PictureOp::kInvert, 0.4, 0}}},
                             SubPolicy{{{PictureOp::kShearY, 0.9, 5}, {PictureOp::kSolarize, 0.2, 6}}},
                             SubPolicy{{{PictureOp::kInvert, 0.9, 0}, {PictureOp::kAutoContrast, 0.8, 0}}},
                             SubPolicy{{{PictureOp::kEqualize, 0.6, 0}, {PictureOp::kRotate, 0.9, 3}}},
                             SubPolicy{{{PictureOp::kShearX, 0.9, 4}, {PictureOp::kSolarize, 0.3, 3}}},
                             SubPolicy{{{PictureOp::kShearY, 0.8, 8}, {PictureOp::kInvert, 0.7, 0}}},
                             SubPolicy{{{PictureOp::kEqualize, 0.9, 0}, {PictureOp::kTranslateY, 0.6, 6}}},
                             SubPolicy{{{PictureOp::kInvert, 0.9, 0}, {PictureOp::kEqualize, 0.6, 0}}},
                             SubPolicy{{{PictureOp::kContrast, 0.3, 3}, {PictureOp::kRotate, 0.8, 4}}},
                             SubPolicy{{{PictureOp::kInvert, 0.8, 0}, {PictureOp::kTranslateY, 0.0, 2}}},
                             SubPolicy{{{PictureOp::kShearY, 0.7, 6}, {PictureOp::kSolarize, 0.4, 8}}},
                             SubPolicy{{{PictureOp::kInvert, 0.6, 0}, {PictureOp::kRotate, 0.8, 4}}},
                             SubPolicy{{{PictureOp::kShearY, 0.3, 7}, {PictureOp::kTranslateX, 0.9, 3}}},
                             SubPolicy{{{PictureOp::kShearX, 0.1, 6}, {PictureOp::kInvert, 0.6, 0}}},
                             SubPolicy{{{PictureOp::kSolarize, 0.7, 2}, {PictureOp::kTranslateY, 0.6, 7}}},
                             SubPolicy{{{PictureOp::kShearY, 0.8, 4}, {PictureOp::kInvert, 0.8, 0}}},
                             SubPolicy{{{PictureOp::kShearX, 0.7, 9}, {PictureOp::kTranslateY, 0.8, 3}}},
                             SubPolicy{{{PictureOp::kShearY, 0.8, 5}, {PictureOp::kAutoContrast, 0.7, 0}}},
                             SubPolicy{{{PictureOp::kShearX, 0.7, 2}, {PictureOp::kInvert, 0.1, 0}}}}};

class AutoAugment final : public detail::Policy {
 public:
  AutoAugment(const Spec& spec, const DataStatistics& statistics, const SubPolicies& policies)
      : Policy(spec, statistics), policies_(policies) {}

  int color_steps() const override { return 2; }

 private:
  void draw(Plan& plan, Rng& rng) const override {
    for (const PolicyOp& one : policies_[static_cast<size_t>(rng.between(0, 24))]) {
      const bool is_applied = rng.chance(one.p), is_negative = rng.chance(0.5);
      if (is_applied) take(one.op, one.magnitude / 9.0, is_negative, detail::auto_augment_magnitude(plan, 10), plan);
    }
  }

  const SubPolicies& policies_;  // one of the constants above
};

const SubPolicies& policies_of(const Spec& spec) {
  const std::string name = spec.get("policy", "imagenet");
  if (name == "imagenet") return kImageNet;
  if (name == "cifar10") return kCifar10;
  if (name == "svhn") return kSvhn;
  throw config_error(concat(spec.where(), ": policy is ", in_quotes(name), "; expected imagenet, cifar10 or svhn"));
}

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  return std::make_unique<AutoAugment>(spec, statistics, policies_of(spec));
}

const Registered<TransformKind> kRegistered{
    "auto-augment",
    {"policy", "filter", "interpolation", "fill"},
    "one of the 25 pairs of operations that AutoAugment has learned: policy=imagenet|cifar10|svhn (default imagenet), "
    "interpolation=nearest|bilinear|bicubic|random (default nearest), fill=LEVEL from 0 to 255 (0)",
    make,
    {.test_spec = "auto-augment"}};

}  // namespace
}  // namespace penstock
