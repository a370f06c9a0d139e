// write_png(): pixels to a PNG file in memory, by libspng.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "augment/plan.h"

namespace penstock::detail {

/// 8 bits per channel. `pixels`: H x W x C, where C is 1 (grey) or 3 (RGB). Errors: bug_error for what libspng refuses.
std::vector<uint8_t> write_png(std::span<const uint8_t> pixels, const Extent& extent);

}  // namespace penstock::detail
