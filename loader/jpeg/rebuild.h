// encode_scan(): coefficients back to the entropy-coded bytes that they came from.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/jpeg/coefficients.h"
#include "loader/jpeg/geometry.h"
#include "loader/jpeg/header.h"

namespace penstock::detail {

/// All MCUs of `source`, Huffman-coded with the header's tables: its restart markers, an end of block as soon as there
/// are only zeros left, 16 zeros by 0xF0, the last byte of a segment filled up with ones (T.81, F.1.2). So codes
/// libjpeg, and what others write equals it nearly always; whoever needs a file's own bytes compares. They stand in the
/// file from header.scan_begin on; the header and what follows the scan (EOI) are no part of it. About 2 ns a bit.
/// Requires that every component's tables are defined, as header.is_decodable() says.
/// Errors: corrupt_error for a coefficient that the tables have no code for, and what `source` throws.
std::vector<uint8_t> encode_scan(const JpegHeader& header, const JpegGeometry& geometry, CoefficientSource& source);

}  // namespace penstock::detail
