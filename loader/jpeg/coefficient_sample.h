// CoefficientSample: the bytes of a sample of Encoding::kCoefficients, taken apart and put together.
//
//   u32  header_bytes
//   u32  tail_bytes
//   u8[header_bytes]  the JPEG from SOI to the end of its SOS segment, as it came
//   u8[tail_bytes]    the JPEG behind its entropy-coded data: EOI, and whatever followed
//   u8[...]           the coefficients (store_writer.h), up to the end of the sample
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/header.h"

namespace penstock::detail {

struct CoefficientSample {
  std::span<const uint8_t> header, tail, store;

  /// Views into `bytes`. Throws corrupt_error for lengths that do not fit.
  static CoefficientSample parse(std::span<const uint8_t> bytes);
  std::vector<uint8_t> bytes() const;
  /// Of `header`. Throws corrupt_error for what our own decoder does not take, and what parse_jpeg_header() throws.
  JpegHeader jpeg_header() const;
};

class Codebook;

/// The JPEG file: header, scan coded with the header's own tables, tail. Throws corrupt_error.
std::vector<uint8_t> rebuild_jpeg(const CoefficientSample& sample, const Codebook& codebook);

}  // namespace penstock::detail
