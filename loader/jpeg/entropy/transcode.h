// transcode_to_baseline(): rewrites any JPEG as one sequential Huffman-coded scan of the same coefficients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::detail {

/// A JPEG with the same quantised coefficients, quantisation tables, sampling and colours, and therefore the same
/// pixels. It has one interleaved scan with Huffman tables of its own and no restart markers, so that a seek index can
/// be made for it. The source may be progressive, multi-scan or arithmetic-coded, or have restart markers. APPn and COM
/// segments (EXIF, ICC, Adobe) are kept in their order; the JFIF segment is written anew, without its thumbnail.
///
/// Empty where no such JPEG can hold the coefficients, because one of them has more than 10 bits (a DC difference: 11).
///
/// Errors: corrupt_error for whatever libjpeg refuses or warns about, for missing scans, for more than 10 blocks per
/// MCU (one scan cannot hold them), for more than 500 scans, and for a picture of more than kMaxPixels.
std::vector<uint8_t> transcode_to_baseline(std::span<const uint8_t> bytes);

}  // namespace penstock::detail
