// encode_scan(): codes coefficients into the entropy-coded bytes that they came from.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"

namespace penstock::detail {

/// All MCUs of `source`, Huffman-coded with the tables of the header. Restart markers are written as the header says,
/// an end of block as soon as only zeros are left, 0xF0 for 16 zeros, and the last byte of a segment is filled up with
/// ones (T.81, F.1.2). libjpeg codes in this way, and the files of other encoders are nearly always equal to it; a
/// caller that needs the very bytes of a file must compare. In the file the result begins at header.scan_begin. It
/// contains neither the header nor what follows the scan (EOI). Takes about 2 ns per bit. Requires that the tables of
/// every component are defined, as header.is_decodable() says.
/// Errors: corrupt_error for a coefficient for which the tables have no code, and what `source` throws.
std::vector<uint8_t> encode_scan(const JpegHeader& header, const JpegGeometry& geometry, CoefficientSource& source);

}  // namespace penstock::detail
