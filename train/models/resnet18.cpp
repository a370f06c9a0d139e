// resnet18: 18 layers in basic blocks; torchvision's names and shapes.
#include "train/models/resnet.h"

namespace penstock {
namespace {

const Registered<ModelKind> kResnet18{
    "resnet18",
    {},
    "ResNet-18 (basic blocks) with torchvision's parameter names; for pictures of 17 x 17 pixels or more",
    [](const Spec&, const ModelShape& shape) {
      return detail::make_resnet("resnet18", detail::ResNetBlock::kBasic, {2, 2, 2, 2}, shape);
    }};

}  // namespace
}  // namespace penstock
