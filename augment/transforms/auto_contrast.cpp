// auto-contrast: stretches each channel to 0..255 with probability p, as torchvision's RandomAutocontrast (0.26).
#include "augment/transforms/random_step.h"

namespace penstock {
namespace {

const Registered<TransformKind> kRegistered{
    "auto-contrast",
    {"p"},
    "stretch each channel to all levels with probability p (default 0.5)",
    [](const Spec& spec, const DataStatistics&) { return detail::random_step(spec, ColorOp::kAutoContrast, 0); },
    {.test_spec = "auto-contrast(p=0.7)"}};

}  // namespace
}  // namespace penstock
