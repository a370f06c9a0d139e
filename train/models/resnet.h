// ResNet: what resnet18 and resnet50 share.
//
// Lives here: plug-ins that are networks, one file per network or family, and what several of them share.
// Not here: layers that any network may use (train/nn).
#pragma once

#include <array>

#include "train/nn/model.h"

namespace penstock::detail {

enum class ResNetBlock { kBasic, kBottleneck };

/// The networks of He, Zhang, Ren, Sun 2016, "Deep residual learning for image recognition", table 1, with
/// torchvision's names, shapes and initialisation. The deviation: a bottleneck has its stride in the 3 x 3 convolution
/// (torchvision's "v1.5"), and not in the first one as in the paper. Stages: stem, layer1 .. layer4, head. Throws
/// config_error for pictures below 17 x 17. The key drop-path is the rate of stochastic depth of the last block; it
/// rises from 0 at the first one (Huang et al. 2016), as timm has it.
std::unique_ptr<Model> make_resnet(const Spec& spec, ResNetBlock block, std::array<int, 4> block_counts,
                                   const ModelShape& shape);

}  // namespace penstock::detail
