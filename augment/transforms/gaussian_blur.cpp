// gaussian-blur: blurs by a random standard deviation with probability p: with a kernel as torchvision's GaussianBlur
// (0.26), without one as Pillow's ImageFilter.GaussianBlur (13.0), which DeiT and timm use.
//
// Deviation: torchvision refuses pictures that are not larger than half of the kernel; here they are reflected again
// and again.
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

class GaussianBlur final : public Transform {
 public:
  GaussianBlur(int kernel, Range deviation, double p) : kernel_(kernel), deviation_(deviation), p_(p) {}

  Effect effect() const override { return Effect::kColor; }
  int color_steps() const override { return 1; }
  void edit(Plan& plan, Rng& rng) const override {
    if (!rng.chance(p_)) return;
    plan.adjust(ColorOp::kGaussianBlur, static_cast<float>(rng.uniform(deviation_.low, deviation_.high)), kernel_);
  }

 private:
  int kernel_;       // pixels; 0: Pillow's
  Range deviation_;  // pixels
  double p_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  const int kernel = spec.get("kernel", 0);
  if (spec.has("kernel") && (kernel == 0 || !is_blur(1, kernel)))
    throw config_error(concat(spec.where(), ": kernel is ", kernel, "; expected an odd number of 1 to ", kMaxBlurKernel,
                              " pixels, or none for Pillow's blur"));
  return std::make_unique<GaussianBlur>(kernel, detail::deviation(spec, kernel), detail::probability(spec, "p", 1));
}

const Registered<TransformKind> kRegistered{
    "gaussian-blur",
    {"kernel", "sigma", "p"},
    "blur with probability p (default 1) by a standard deviation of sigma=low:high pixels (0.1:2): kernel=N, odd, for "
    "torchvision's blur of N x N pixels, without it Pillow's",
    make,
    {.test_spec = "gaussian-blur"}};

}  // namespace
}  // namespace penstock
