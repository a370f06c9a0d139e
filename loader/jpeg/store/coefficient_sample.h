// CoefficientSample: the parts of a sample of Encoding::kCoefficients. Its bytes, little-endian:
//
//   u32  header_bytes
//   u32  tail_bytes
//   u8[header_bytes]  the JPEG from SOI to the end of its SOS segment, unchanged
//   u8[tail_bytes]    the JPEG after its entropy-coded data: EOI, and whatever follows it
//   u8[...]           the coefficients (store_writer.h), up to the end of the sample
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/jpeg/base/header.h"

namespace penstock::detail {

struct CoefficientSample {
  std::span<const uint8_t> header, tail, store;

  /// Takes a sample apart. The parts are views into `bytes`. Throws corrupt_error for lengths that do not fit.
  static CoefficientSample parse(std::span<const uint8_t> bytes);
  std::vector<uint8_t> bytes() const;
  /// Parses `header`. Throws corrupt_error for a JPEG that our own decoder cannot decode, and what parse_jpeg_header()
  /// throws.
  JpegHeader jpeg_header() const;
};

class Codebook;

/// Rebuilds the JPEG file: the header, the scan coded with the tables of the header, and the tail. Throws
/// corrupt_error.
std::vector<uint8_t> rebuild_jpeg(const CoefficientSample& sample, const Codebook& codebook);

}  // namespace penstock::detail
