// The few intrinsics that have another name where a CUDA device's kernels are compiled.
#pragma once

#include <cstdint>

namespace penstock {

inline double absolute(double value) {
#if defined(__CUDACC_RTC__)
  return fabs(value);
#else
  return __builtin_fabs(value);
#endif
}

/// The number of zero bits below the lowest set bit. Requires that a bit is set.
inline int trailing_zeros(uint64_t bits) {
#if defined(__CUDACC_RTC__)
  return __ffsll(static_cast<long long>(bits)) - 1;
#else
  return __builtin_ctzll(bits);
#endif
}

inline uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

}  // namespace penstock
