// mended_end(): a JPEG whose pixels are whole and whose end is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::detail {

/// The JPEG with its end marker where it has none, or without the byte 0 before it, which some cameras write; empty
/// where it has neither fault. Whether the pixels are whole shows when the result is decoded. `scan_begin`: that of
/// JpegHeader.
std::vector<uint8_t> mended_end(std::span<const uint8_t> jpeg, size_t scan_begin);

}  // namespace penstock::detail
