// resnet50: 50 layers in bottleneck blocks; torchvision's names and shapes.
#include "train/models/resnet.h"

namespace penstock {
namespace {

const Registered<ModelKind> kResnet50{
    "resnet50",
    {"drop-path"},
    "ResNet-50 (bottleneck blocks) with torchvision's parameter names; for pictures of 17 x 17 pixels or more; "
    "drop-path=0 "
    "is the rate of stochastic depth of the last block",
    [](const Spec& spec, const ModelShape& shape) {
      return detail::make_resnet(spec, detail::ResNetBlock::kBottleneck, {3, 4, 6, 3}, shape);
    }};

}  // namespace
}  // namespace penstock
