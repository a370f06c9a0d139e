// nonzero_places(): which coefficients of a block are not 0.
#pragma once

#include <cstdint>

namespace penstock::detail {

/// Bit k is set when coefficient k of `block` is not 0. Requires an alignment of 64 bytes.
uint64_t nonzero_places(const int16_t* block);

}  // namespace penstock::detail
