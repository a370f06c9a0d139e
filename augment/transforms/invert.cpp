// invert: turns each level into 255 - level with probability p, as torchvision's RandomInvert (0.26). That is to
// solarize from level 0 on, so levels are rounded first.
#include "augment/transforms/random_step.h"

namespace penstock {
namespace {

const Registered<TransformKind> kRegistered{
    "invert",
    {"p"},
    "invert all levels with probability p (default 0.5)",
    [](const Spec& spec, const DataStatistics&) { return detail::random_step(spec, ColorOp::kSolarize, 0); },
    {.test_spec = "invert(p=0.7)"}};

}  // namespace
}  // namespace penstock
