// Rng: random numbers that are a pure function of (seed; epoch, sample, transform, draw).
#pragma once

#include <array>
#include <cstdint>

namespace penstock {

/// One block of Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3",
/// sec. 3.2): ten rounds of two 32 x 32 -> 64 bit products. Equal to Random123's philox4x32 for the same counter and
/// key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The random stream of one transform on one sample in one epoch. Key: the seed. Counter, from its lowest word: draw
/// block and transform (16 bits each), epoch, sample id (64 bits). No state outlives the sample, so any thread may make
/// any sample at any time and get the same numbers.
///
/// Thread-safety: a value; use one a thread.
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

  double uniform() { return next() * 0x1p-32; }  ///< In [0, 1), 32 bits of it.
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double probability) { return uniform() < probability; }
  /// An integer in [low, high], both included. The bias of the multiplication is below (high - low + 1) / 2^32.
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
