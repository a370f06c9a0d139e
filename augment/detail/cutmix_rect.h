// cutmix_rect(): the rectangle of cutmix about a given pixel, in a header of its own so that tests can call it.
#pragma once

#include "augment/plan.h"

namespace penstock::detail {

/// A rectangle centred at (column, row) whose sides are sqrt(1 - mix_weight) times those of the output, clipped to the
/// output: torchvision's CutMix.make_params (0.26), Yun et al. 2019, eq. 2.
Region cutmix_rect(double mix_weight, int column, int row, int height, int width);

}  // namespace penstock::detail
