// grayscale: gives all channels the grey level with probability p, as torchvision's RandomGrayscale (0.26). Grey
// pictures stay as they are.
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

class Grayscale final : public Transform {
 public:
  explicit Grayscale(double p) : p_(p) {}

  Effect effect() const override { return Effect::kColor; }
  int color_steps() const override { return 1; }
  void edit(Plan& plan, Rng& rng) const override {
    if (rng.chance(p_)) plan.adjust(ColorOp::kSaturation, 0);
  }

 private:
  double p_;
};

const Registered<TransformKind> kRegistered{
    "grayscale",
    {"p"},
    "make the picture grey, with the same levels in all channels, with probability p (default 0.1)",
    [](const Spec& spec, const DataStatistics&) {
      return std::make_unique<Grayscale>(detail::probability(spec, "p", 0.1));
    },
    {.test_spec = "grayscale(p=0.5)"}};

}  // namespace
}  // namespace penstock
