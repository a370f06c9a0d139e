// half: f32 to f16 and to bf16, rounded to nearest even, by integer arithmetic: the same bits with and without F16C.
#pragma once

#include <bit>
#include <cstdint>

namespace penstock::detail {

/// Beyond 65504 (and from 65520 on) infinity; below 2^-14 subnormal. Requires a value that is a number.
inline uint16_t f16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= (127u + 16) << 23) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < (127u - 14) << 23) {
    // Adding 0.5 leaves 2^-24, the unit of subnormal f16, as the last bit: the addition rounds.
    const float moved = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(moved) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t is_odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | (magnitude - ((127u - 15) << 23) + 0xFFF + is_odd) >> 13);
}

/// Requires a value that is a number.
inline uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace penstock::detail
