// half: converts f32 to f16 and to bf16, rounded to nearest even. Integer arithmetic gives the same bits with and
// without F16C, and on a CUDA device.
#pragma once

#include <cstdint>

#include "core/device_math.h"

namespace penstock::detail {

/// The bits of the nearest f16. The greatest finite f16 is 65504; a magnitude of 65520 or more becomes infinity, and
/// one below 2^-14 becomes subnormal. Requires that `value` is not NaN.
inline uint16_t f16_bits(float value) {
  const auto bits = bits_of(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= (127u + 16) << 23) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < (127u - 14) << 23) {
    // The last bit of an f32 between 0.5 and 1 is worth 2^-24, which is the unit of subnormal f16. Adding 0.5 therefore
    // rounds to that unit.
    const float moved = float_of(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of(moved) - bits_of(0.5f)));
  }
  const uint32_t is_odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | (magnitude - ((127u - 15) << 23) + 0xFFF + is_odd) >> 13);
}

/// The bits of the nearest bf16. Requires that `value` is not NaN.
inline uint16_t bf16_bits(float value) {
  const auto bits = bits_of(value);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace penstock::detail
