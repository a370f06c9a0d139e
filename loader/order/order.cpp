// Order: the Feistel network, and the walk that ends inside of the range.
#include "loader/order/order.h"

#include <bit>

#include "loader/order/mix.h"

namespace penstock {
namespace {

using detail::kGolden;
using detail::mix;

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

/// The rounds in reverse. What cycle walking has passed on the way is outside of the range on the way back as well.
uint64_t Order::position_of(uint64_t sample) const {
  if (!is_shuffled_) return sample;
  const uint64_t left_mask = low_bits(left_bits_), right_mask = low_bits(right_bits_);
  do {
    uint64_t left = sample >> right_bits_, right = sample & right_mask;
    for (int round = kRounds; round > 0; round -= 2) {
      right ^= mix(left ^ keys_[round - 1]) & right_mask;
      left ^= mix(right ^ keys_[round - 2]) & left_mask;
    }
    sample = left << right_bits_ | right;
  } while (sample >= size_);
  return sample;
}

}  // namespace penstock
