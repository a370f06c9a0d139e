// flip: mirrors left and right with probability p.
#include <memory>

#include "augment/detail/arguments.h"
#include "augment/transform.h"

namespace penstock {
namespace {

class Flip final : public Transform {
 public:
  explicit Flip(double p) : p_(p) {}

  void edit(Plan& plan, Rng& rng) const override {
    if (!rng.chance(p_)) return;
    const double width = plan.output_width;
    plan.resample({-1, 0, width, 0, 1, 0}, plan.output_height, plan.output_width);
  }

 private:
  double p_;
};

const Registered<TransformKind> kRegistered{"flip", "mirror left and right with probability p (default 0.5)",
                                            [](const Spec& spec, const DataStatistics&) {
                                              return std::make_unique<Flip>(detail::probability(spec, "p", 0.5));
                                            }};

}  // namespace
}  // namespace penstock
