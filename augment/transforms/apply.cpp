// apply: runs a list of transforms with one probability, as torchvision's RandomApply (0.26).
#include <memory>
#include <string>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/nested_list.h"

namespace penstock {
namespace {

class Apply final : public Transform {
 public:
  Apply(double p, detail::NestedList list) : p_(p), list_(std::move(list)) {}

  Effect effect() const override { return list_.moves() ? Effect::kGeometry : Effect::kColor; }
  int color_steps() const override { return list_.color_steps(); }
  void edit(Plan& plan, Rng& rng) const override {
    if (rng.chance(p_)) list_.edit(plan, rng);
  }

 private:
  double p_;
  detail::NestedList list_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  const std::string list = spec.get("list", "{}");
  if (list == "{}") throw config_error(concat(spec.where(), ": has no list; expected list={NAME(...),...}"));
  return std::make_unique<Apply>(detail::probability(spec, "p", 0.5), detail::NestedList(spec, list, statistics));
}

const Registered<TransformKind> kRegistered{
    "apply",
    {"p", "list"},
    "run list={NAME(...),...}, transforms of geometry and colour that keep the size, with probability p (default 0.5)",
    make,
    {.test_spec = "apply(p=0.7,list={rotate(degrees=20),color-jitter(brightness=0.4)})"}};

}  // namespace
}  // namespace penstock
