// mix(): bits that depend on all bits of a number, for keys of orders and offsets.
#pragma once

#include <cstdint>

namespace penstock::detail {

__extension__ typedef unsigned __int128 Wide;  // of GCC and Clang; for products of two numbers of 64 bits

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: the increment of SplitMix64

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014, with Stafford's constants, variant 13). It is a bijection.
constexpr uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

/// 64 bits that (seed, first, second) choose.
constexpr uint64_t keyed_bits(uint64_t seed, uint64_t first, uint64_t second = 0) {
  return mix(mix(mix(seed + kGolden) + first) + kGolden + second);
}

/// `bits`, uniform in [0, 2^64), as a number in [0, below). Uneven by less than below / 2^64.
constexpr uint64_t scaled_below(uint64_t bits, uint64_t below) {
  return static_cast<uint64_t>((Wide{bits} * below) >> 64);
}

}  // namespace penstock::detail
