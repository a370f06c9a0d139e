// shift: zero-pads by `pad` pixels and crops back at a random offset (He et al. 2016, sec. 4.2).
#include <memory>

#include "augment/transform.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

class Shift final : public Transform {
 public:
  explicit Shift(int pad) : pad_(pad) {}

  void edit(Plan& plan, Rng& rng) const override {
    const int x = rng.between(-pad_, pad_), y = rng.between(-pad_, pad_);
    plan.resample(Affine::translation(x, y), plan.output_height, plan.output_width);
  }

 private:
  int pad_;  // pixels of the output so far
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  const int pad = spec.get("pad", 4);
  if (pad < 0 || pad > 65535)
    throw config_error(concat(spec.where(), ": pad is ", pad, "; expected 0 to 65535 pixels"));
  return std::make_unique<Shift>(pad);
}

const Registered<TransformKind> kRegistered{
    "shift", "zero-pad and crop back at a random offset of up to pad=PIXELS (default 4)", make};

}  // namespace
}  // namespace penstock
