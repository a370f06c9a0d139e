// flip, vflip: mirror left and right, or top and bottom, with probability p.
//
// Lives here: plug-ins that edit plans, one file each, and what several of them share.
// Not here: what a transform is, and lists of them (augment/transform.h).
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

class Flip final : public Transform {
 public:
  Flip(double p, bool is_vertical) : p_(p), is_vertical_(is_vertical) {}

  bool mirrors() const override { return true; }

  void edit(Plan& plan, Rng& rng) const override {
    if (!rng.chance(p_)) return;
    const double height = plan.output_height, width = plan.output_width;
    const Affine mirror = is_vertical_ ? Affine{1, 0, 0, 0, -1, height} : Affine{-1, 0, width, 0, 1, 0};
    plan.resample(mirror, plan.output_height, plan.output_width);
  }

 private:
  double p_;
  bool is_vertical_;
};

TransformKind::Factory factory(bool is_vertical) {
  return [is_vertical](const Spec& spec, const DataStatistics&) {
    return std::make_unique<Flip>(detail::probability(spec, "p", 0.5), is_vertical);
  };
}

const Registered<TransformKind> kFlip{
    "flip", {"p"}, "mirror left and right with probability p (default 0.5)", factory(false), {.test_spec = "flip"}};
const Registered<TransformKind> kVflip{
    "vflip", {"p"}, "mirror top and bottom with probability p (default 0.5)", factory(true), {.test_spec = "vflip"}};

}  // namespace
}  // namespace penstock
