// First images: pictures of training for models whose weights begin from them.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "train/run/setup.h"

namespace penstock {

/// At most `count` pictures of this rank's data in the order of their indices, as an evaluation sees them: f32 N x C x
/// H x W. Requires open data and both pipelines. Throws what the loader throws.
torch::Tensor first_images(const Setup& setup, int64_t count);

}  // namespace penstock
