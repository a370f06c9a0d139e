// posterize: keeps the highest bits of each level with probability p, as torchvision's RandomPosterize (0.26). Levels
// are rounded first.
#include "augment/transforms/random_step.h"

namespace penstock {
namespace {

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  const int bits = spec.get("bits", 4);
  if (bits < 1 || bits > 8) throw config_error(concat(spec.where(), ": bits is ", bits, "; expected 1 to 8"));
  return detail::random_step(spec, ColorOp::kPosterize, bits);
}

const Registered<TransformKind> kRegistered{
    "posterize",
    {"bits", "p"},
    "keep the highest bits=N of each level (1 to 8, default 4) with probability p (default 0.5)",
    make,
    {.test_spec = "posterize(bits=2,p=0.7)"}};

}  // namespace
}  // namespace penstock
