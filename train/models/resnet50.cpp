// resnet50: 50 layers in bottleneck blocks; torchvision's names and shapes.
#include "train/models/resnet.h"

namespace penstock {
namespace {

const Registered<ModelKind> kResnet50{
    "resnet50",
    {},
    "ResNet-50 (bottleneck blocks) with torchvision's parameter names; for pictures of 17 x 17 pixels or more",
    [](const Spec&, const ModelShape& shape) {
      return detail::make_resnet("resnet50", detail::ResNetBlock::kBottleneck, {3, 4, 6, 3}, shape);
    }};

}  // namespace
}  // namespace penstock
