// Order: the Feistel network, and the walk that ends inside of the range.
#include "loader/order/order.h"

#include <bit>

namespace penstock {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: the increment of SplitMix64

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014, with Stafford's constants, variant 13). It is a bijection.
constexpr uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

constexpr uint64_t low_bits(int count) { return (uint64_t{1} << count) - 1; }  // Requires count <= 32

}  // namespace

Order Order::shuffled(uint64_t size, uint64_t seed, uint64_t epoch) {
  Order order;
  order.size_ = size;
  if (size < 2) return order;  // nothing to permute
  order.is_shuffled_ = true;
  const int bits = std::bit_width(size - 1);
  order.left_bits_ = bits / 2;
  order.right_bits_ = bits - order.left_bits_;
  uint64_t state = mix(mix(seed + kGolden) + epoch);
  for (uint64_t& key : order.keys_) key = mix(state += kGolden);
  return order;
}

Order Order::sequential(uint64_t size) {
  Order order;
  order.size_ = size;
  return order;
}

uint64_t Order::at(uint64_t position) const {
  if (!is_shuffled_) return position;
  const uint64_t left_mask = low_bits(left_bits_), right_mask = low_bits(right_bits_);
  do {
    uint64_t left = position >> right_bits_, right = position & right_mask;
    for (int round = 0; round < kRounds; round += 2) {
      left ^= mix(right ^ keys_[round]) & left_mask;
      right ^= mix(left ^ keys_[round + 1]) & right_mask;
    }
    position = left << right_bits_ | right;
  } while (position >= size_);
  return position;
}

}  // namespace penstock
