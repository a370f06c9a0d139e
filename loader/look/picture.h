// decode_picture(): one sample as pixels, upright.
#pragma once

#include <cstdint>
#include <vector>

#include "augment/plan/plan.h"
#include "loader/shards/dataset.h"

namespace penstock {

struct DecodedPicture {
  Extent extent;
  std::vector<uint8_t> pixels;  // H x W x C of `type`
  PixelType type = PixelType::kU8;
};

/// The whole picture of sample `index`, turned upright, with as many channels as the data set has. It is what a Loader
/// without transforms gives with the layout of its own type: kU8Nhwc, kU16Nhwc or kF32Nhwc.
/// Requires index < dataset.size(). Throws corrupt_error and io_error, which name shard, sample and byte.
/// Thread-safety: any thread.
DecodedPicture decode_picture(const Dataset& dataset, uint64_t index);

}  // namespace penstock
