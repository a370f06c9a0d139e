// write_jpeg(): pixels to a JPEG file in memory, by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <vector>

#include "augment/render.h"

namespace penstock::detail {

/// Baseline, accurate integer DCT, 4:2:0 chroma, the standard's Huffman tables. `quality`: 1 .. 100, libjpeg's scale.
/// Errors: bug_error for what libjpeg refuses. Thread-safety: no state.
std::vector<uint8_t> write_jpeg(const Picture& picture, int quality);

}  // namespace penstock::detail
