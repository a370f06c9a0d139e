// solarize: inverts the levels from a threshold on with probability p, as torchvision's RandomSolarize (0.26). Levels
// are rounded first. 128 is the default of Pillow; torchvision has none.
#include "augment/transforms/random_step.h"

namespace penstock {
namespace {

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  const double threshold = spec.get("threshold", 128.0);
  if (!(threshold >= 0 && threshold <= 256))
    throw config_error(concat(spec.where(), ": threshold is ", threshold, "; expected 0 to 256"));
  return detail::random_step(spec, ColorOp::kSolarize, threshold);
}

const Registered<TransformKind> kRegistered{
    "solarize",
    {"threshold", "p"},
    "invert the levels from threshold=LEVEL on (128) with probability p (default 0.5)",
    make,
    {.test_spec = "solarize(p=0.7)"}};

}  // namespace
}  // namespace penstock
