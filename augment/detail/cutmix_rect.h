// cutmix_rect(): the rectangle of cutmix about a given pixel, as tests call it.
#pragma once

#include "augment/plan.h"

namespace penstock::detail {

/// sqrt(1 - mix_weight) of the output's height and width about (column, row), clipped to it: torchvision's
/// CutMix.make_params (0.26), Yun et al. 2019, eq. 2.
Region cutmix_rect(double mix_weight, int column, int row, int height, int width);

}  // namespace penstock::detail
