// Pictures that a model of any name takes.
#pragma once

#include <algorithm>
#include <string>

#include "train/nn/shape.h"

namespace penstock {

/// `shape`; for Vision Transformers of patches of 16 and for ConvNeXts of four stages the next larger one that they
/// take.
inline ModelShape shape_for(const std::string& arch, ModelShape shape) {
  for (int64_t* side : {&shape.height, &shape.width}) {
    if (arch.starts_with("vit")) *side = (*side + 15) / 16 * 16;
    if (arch.starts_with("convnext")) *side = std::max<int64_t>(*side, 32);
  }
  return shape;
}

}  // namespace penstock
