// NpyArray: an array in NumPy's file format, read without trust.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/files/dtype.h"

namespace penstock::detail {

/// `data` is into the file: little-endian, row-major.
struct NpyArray {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  std::span<const uint8_t> data;
};

bool is_npy(std::span<const uint8_t> file);  ///< By its first bytes.

/// Versions 1 to 3 of the format. Throws corrupt_error, which names no file, for objects (which would be pickles),
/// big-endian and Fortran-ordered arrays, other dtypes, and a file of another size than its header says.
NpyArray parse_npy(std::span<const uint8_t> file);

/// The same as a file of version 1.0. bf16, which NumPy does not have, becomes u16 with the same bytes.
std::vector<uint8_t> npy_file(const NpyArray& array);

}  // namespace penstock::detail
