// decode_deep_png(): all bits of a PNG of 16 bits per channel, by libspng.
#pragma once

#include <cstdint>
#include <span>

#include "augment/render.h"
#include "loader/codecs/codec.h"

namespace penstock::detail {

/// Whether it is a PNG of 16 bits per channel, by its first bytes.
bool is_deep_png(std::span<const uint8_t> bytes);

/// u16 with 1 or 3 channels, without alpha, valid until `scratch` is used again. Requires is_deep_png(). Throws
/// corrupt_error, as the codec of PNG does.
Picture decode_deep_png(std::span<const uint8_t> bytes, DecodeScratch& scratch);

}  // namespace penstock::detail
