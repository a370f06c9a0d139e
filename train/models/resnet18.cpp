// resnet18: 18 layers in basic blocks; torchvision's names and shapes.
#include "train/models/resnet.h"

namespace penstock {
namespace {

const Registered<ModelKind> kResnet18{
    "resnet18",
    {"drop-path"},
    "ResNet-18 (basic blocks) with torchvision's parameter names; for pictures of 17 x 17 pixels or more; drop-path=0 "
    "is the rate of stochastic depth of the last block",
    [](const Spec& spec, const ModelShape& shape) {
      return detail::make_resnet(spec, detail::ResNetBlock::kBasic, {2, 2, 2, 2}, shape);
    }};

}  // namespace
}  // namespace penstock
