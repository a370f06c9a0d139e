// sharpness: blends the picture with its 3 x 3 blur with probability p, as torchvision's RandomAdjustSharpness (0.26).
#include "augment/transforms/random_step.h"

namespace penstock {
namespace {

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  const double factor = spec.get("factor", 2.0);
  if (!(factor >= 0 && factor <= 100))
    throw config_error(concat(spec.where(), ": factor is ", factor, "; expected 0 to 100"));
  return detail::random_step(spec, ColorOp::kSharpness, factor);
}

const Registered<TransformKind> kRegistered{"sharpness",
                                            {"factor", "p"},
                                            "blur or sharpen with probability p (default 0.5): factor=V, 0 for the "
                                            "blurred picture, 1 for no change, 2 for twice the sharpness (default 2)",
                                            make,
                                            {.test_spec = "sharpness(p=0.7)"}};

}  // namespace
}  // namespace penstock
