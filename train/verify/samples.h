// Samples: pictures with labels in memory, and batches of them as a feeder gives them.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "loader/order/partition.h"
#include "train/nn/shape.h"
#include "train/tensor/device_batch.h"

namespace penstock {

struct Samples {
  torch::Tensor images;  // N x C x H x W
  torch::Tensor labels;  // i64 N
};

/// The first `count` embedded digits, f64, with mean 0 and deviation 1. Their shape is ModelShape's default.
Samples digit_samples(int64_t count);

/// Batch `index` of `samples` in order, as a feeder gives it to this rank: padding rows hold zeros and have weight 0.
DeviceBatch part_of(const Samples& samples, int64_t batch_size, int64_t index, int rank, int world_size,
                    ShortBatch short_batch = ShortBatch::kEvenly);

}  // namespace penstock
