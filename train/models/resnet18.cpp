// resnet18: 18 layers in basic blocks; torchvision's names and shapes.
#include "train/models/resnet.h"

namespace penstock {
namespace {

const Registered<ModelKind> kRegistered{
    "resnet18",
    {},
    "18 layers in basic blocks, with torchvision's names; pictures of 17 x 17 and above",
    [](const Spec&, const ModelShape& shape) {
      return detail::make_resnet("resnet18", detail::ResNetBlock::kBasic, {2, 2, 2, 2}, shape);
    }};

}  // namespace
}  // namespace penstock
