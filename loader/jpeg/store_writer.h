// encode_store(): a picture's coefficients as the coefficient store's bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/jpeg/codebook.h"
#include "loader/jpeg/coefficients.h"
#include "loader/jpeg/geometry.h"

namespace penstock::detail {

/// Every coefficient of `source`, to be read back exactly with the same codebook; bytes as store_format.h says. Of
/// equal inputs equal bytes, on every processor. About 1 us a block: the cheapest of 255 entries is searched.
///
/// Throws what `source` throws, and config_error when the bytes would pass 4 GiB. Thread-safety: of `codebook` only
/// const use.
std::vector<uint8_t> encode_store(const JpegGeometry& geometry, CoefficientSource& source, const Codebook& codebook);

}  // namespace penstock::detail
