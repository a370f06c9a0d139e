// equalize: gives each channel a flat histogram with probability p, as torchvision's RandomEqualize (0.26).
#include "augment/transforms/random_step.h"

namespace penstock {
namespace {

const Registered<TransformKind> kRegistered{
    "equalize",
    {"p"},
    "make the histogram of each channel flat with probability p (default 0.5)",
    [](const Spec& spec, const DataStatistics&) { return detail::random_step(spec, ColorOp::kEqualize, 0); },
    {.test_spec = "equalize(p=0.7)"}};

}  // namespace
}  // namespace penstock
