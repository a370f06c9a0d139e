// mixup (Zhang et al. 2018), cutmix (Yun et al. 2019): mix each row of a batch with another row of it. They do not
// change the plans of samples: the loader mixes rendered rows by a BatchPlan.
#include <memory>

#include "augment/transform.h"

namespace penstock {
namespace {

class Mix final : public Transform {
 public:
  explicit Mix(const BatchMix& mix) : mix_(mix) {}

  Effect effect() const override { return Effect::kBatch; }
  void edit(Plan&, Rng&) const override {}
  const BatchMix* batch_mix() const override { return &mix_; }

 private:
  BatchMix mix_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  return std::make_unique<Mix>(batch_mix_of(spec));
}

const Registered<TransformKind> kMixup{
    "mixup",
    {"alpha", "off-epoch"},
    "blend each picture with another one of its batch, and their labels, with a weight from Beta(alpha, alpha): alpha "
    "(default 0.2); off-epoch=N: not from epoch N on, counted from 0",
    make,
    {.test_spec = "mixup(alpha=1)"}};
const Registered<TransformKind> kCutmix{"cutmix",
                                        {"alpha", "switch", "off-epoch"},
                                        "replace a rectangle of each picture by that of another one of its batch, and "
                                        "mix their labels by area; the area is drawn from Beta(alpha, alpha): alpha "
                                        "(default 1); off-epoch=N: not from epoch N on, counted from 0. With mixup in "
                                        "the list each batch has one of the two: switch=P is the probability of "
                                        "cutmix (0.5)",
                                        make,
                                        {.test_spec = "cutmix(alpha=2)"}};

}  // namespace
}  // namespace penstock
