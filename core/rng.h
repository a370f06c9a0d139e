// Rng: random numbers that are a pure function of (seed; epoch, sample, transform, draw).
#pragma once

#include <array>
#include <cstdint>

namespace penstock {

/// One block of Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3",
/// sec. 3.2): ten rounds of two 32 x 32 -> 64 bit products. The result equals that of Random123's philox4x32 for the
/// same counter and key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The random stream of one transform on one sample in one epoch. The key is the seed. The counter holds, from its
/// lowest word: the number of the block of draws and the transform (16 bits each), the epoch, and the sample id (64
/// bits). No state is carried from one sample to the next, so that any thread may make any sample at any time and gets
/// the same numbers.
///
/// Thread-safety: none; give each thread its own.
class Rng {
 public:
  Rng(uint64_t seed, uint32_t epoch, uint64_t sample_id, uint16_t transform)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{static_cast<uint32_t>(transform) << 16, epoch, static_cast<uint32_t>(sample_id),
                 static_cast<uint32_t>(sample_id >> 32)} {}

  uint32_t next() {
    if (used_ == 4) {
      block_ = philox4x32(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  double uniform() { return next() * 0x1p-32; }  ///< In [0, 1), with a resolution of 2^-32.
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double probability) { return uniform() < probability; }
  /// An integer from low to high, both included. The multiplication makes the distribution uneven by less than (high -
  /// low + 1) / 2^32.
  int between(int low, int high) {
    const auto count = static_cast<uint64_t>(static_cast<int64_t>(high) - low + 1);
    return static_cast<int>(low + static_cast<int64_t>((next() * count) >> 32));
  }

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace penstock
