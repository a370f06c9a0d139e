// Order: the permutations that are drawn; the Feistel network, and the walk that ends inside of the range.
#include "loader/order/order.h"

#include <algorithm>
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
  uint64_t state = mix(mix(seed + kGolden) + epoch);
  if (size < kFirstNetwork) {
    order.draw(state);
    return order;
  }
  const int bits = std::bit_width(size - 1);
  order.left_bits_ = bits / 2;
  order.right_bits_ = bits - order.left_bits_;
  for (uint64_t& key : order.keys_) key = mix(state += kGolden);
  return order;
}

/// Element i changes places with one of the elements 0 to i. Four such draws, which are of 24 bits together, share the
/// 64 bits of one number: what the product with the first range leaves below 2^64 is the number for the next (Lemire
/// 2019, "Fast random integer generation in an interval"). A draw is uneven by less than 2^-40.
void Order::draw(uint64_t state) {
  uint64_t bits = 0;
  samples_[0] = 0;
  for (uint64_t i = 1; i < size_; ++i) {
    if (i % 4 == 1) bits = mix(state += kGolden);
    const detail::Wide product = detail::Wide{bits} * (i + 1);
    const auto other = static_cast<uint64_t>(product >> 64);
    bits = static_cast<uint64_t>(product);
    samples_[i] = samples_[other];
    samples_[other] = static_cast<uint8_t>(i);
  }
}

Order Order::sequential(uint64_t size) {
  Order order;
  order.size_ = size;
  return order;
}

uint64_t Order::at(uint64_t position) const {
  if (!is_shuffled_) return position;
  if (size_ < kFirstNetwork) return samples_[position];
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
  if (size_ < kFirstNetwork) return static_cast<uint64_t>(std::find(samples_, samples_ + size_, sample) - samples_);
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
