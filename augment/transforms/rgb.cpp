// rgb: grey pictures have three channels, each with the grey level, as Pillow's convert("RGB"), so that weights of RGB
// pictures can be trained on grey ones. All after it in a list is given pictures of three channels.
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

class Rgb final : public Transform {
 public:
  Effect effect() const override { return Effect::kColor; }
  bool makes_rgb() const override { return true; }
  void edit(Plan&, Rng&) const override {}
};

const Registered<TransformKind> kRegistered{
    "rgb",
    {},
    "give grey pictures three channels, each with the grey level; geometry alone may stand before it",
    [](const Spec&, const DataStatistics&) { return std::make_unique<Rgb>(); },
    {.test_spec = "rgb", .is_deterministic = true}};

}  // namespace
}  // namespace penstock
