// transcode_to_baseline(): any JPEG as one sequential Huffman-coded scan of the same coefficients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::detail {

/// A JPEG of the same quantised coefficients, quantisation tables, sampling and colours, hence of the same pixels, in
/// one interleaved scan with Huffman tables of its own and without restart markers: what a seek index can be made for.
/// Progressive, multi-scan, arithmetic-coded and restart-marker sources become that. APPn and COM segments are kept, in
/// their order (EXIF, ICC, Adobe); JFIF's is written anew, without its thumbnail.
///
/// Errors: corrupt_error for what libjpeg refuses, any warning of its included; for missing scans; for more than 10
/// blocks an MCU, which one scan cannot hold; for more than 500 scans; for a picture of more than kMaxPixels.
std::vector<uint8_t> transcode_to_baseline(std::span<const uint8_t> bytes);

}  // namespace penstock::detail
