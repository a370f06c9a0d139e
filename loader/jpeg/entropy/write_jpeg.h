// write_jpeg(): compresses pixels to a JPEG file in memory, by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <vector>

#include "augment/render.h"

namespace penstock::detail {

/// The file is baseline, with the accurate integer DCT, 4:2:0 chroma and the Huffman tables of the standard. `quality`
/// is 1 .. 100 on libjpeg's scale.
/// Errors: bug_error for what libjpeg refuses. Thread-safety: may be called on any thread; it has no state.
std::vector<uint8_t> write_jpeg(const Picture& picture, int quality);

}  // namespace penstock::detail
