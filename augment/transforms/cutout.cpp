// cutout: overwrites a square with one value (DeVries and Taylor 2017, "Improved regularization of convolutional neural
// networks with cutout", arXiv:1708.04552). Deviation: the square lies wholly inside of the picture, as in Page 2019,
// "How to train your ResNet", part 4; in the paper its centre does.
#include <algorithm>
#include <array>
#include <memory>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

class Cutout final : public Transform {
 public:
  Cutout(int size, std::array<float, 3> level) : size_(size), level_(level) {}
  Effect effect() const override { return Effect::kErase; }

  void edit(Plan& plan, Rng& rng) const override {
    const int rows = std::min(size_, plan.output_height), columns = std::min(size_, plan.output_width);
    const int top = rng.between(0, plan.output_height - rows), left = rng.between(0, plan.output_width - columns);
    plan.erase({top, left, top + rows, left + columns, level_});
  }

 private:
  int size_;  // pixels of the output
  std::array<float, 3> level_;
};

std::unique_ptr<Transform> make_cutout(const Spec& spec, const DataStatistics& statistics) {
  const int size = spec.get("size", 8);
  if (size < 1 || size > 65535)
    throw config_error(concat(spec.where(), ": size is ", size, "; expected 1 to 65535 pixels"));
  if (statistics.channels > 3)
    throw config_error(
        concat(spec.where(), ": pictures have ", statistics.channels, " channels; expected 1 to 3, or erase(value=V)"));
  std::array<float, 3> level{};
  for (size_t i = 0; i < level.size(); ++i)
    level[i] = static_cast<float>(statistics.white() *
                                  statistics.mean[std::min<size_t>(i, static_cast<size_t>(statistics.channels) - 1)]);
  return std::make_unique<Cutout>(size, level);
}

const Registered<TransformKind> kCutout{
    "cutout",
    {"size"},
    "overwrite a square of size=PIXELS (default 8) at a random place with the data set's mean",
    make_cutout,
    {.test_spec = "cutout(size=5)"}};

}  // namespace
}  // namespace penstock
