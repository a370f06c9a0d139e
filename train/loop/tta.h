// Test-time augmentation: an evaluation takes the mean of the logits over several views of a picture.
#pragma once

#include <torch/types.h>

#include "train/options/test_views.h"

namespace penstock {

class Strategy;
struct DeviceBatch;

/// As Strategy::evaluate(), which it calls once per view: collective, and undefined where that is. `batch` then has its
/// labels and weights, and the images that it had.
torch::Tensor evaluate_views(Strategy& strategy, DeviceBatch& batch, TestViews views);

}  // namespace penstock
