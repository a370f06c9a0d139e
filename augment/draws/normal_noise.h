// normal_noise: numbers of the standard normal distribution that are a pure function of a key, a pixel and a channel,
// so that any thread may make any of them.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "core/rng.h"

namespace penstock::detail {

/// The quantile of the standard normal distribution at (bits + 1/2) / 2^32, by algorithm AS 241, PPND7 (Wichura 1988,
/// "The percentage points of the normal distribution", Applied Statistics 37): relative error about 1e-7, values from
/// -6.3 to 6.3. Between 0.075 and 0.925 it is a quotient of polynomials and has the same bits on every machine; beyond
/// them the last bit of log() may differ, which changes the f32 about once in 10^8 draws.
inline float normal_quantile(uint32_t bits) {
  const double p = (bits + 0.5) * 0x1p-32, q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return static_cast<float>(q * (((59.10937472 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
                              (((67.1875636 * r + 78.757757664) * r + 17.895169469) * r + 1));
  }
  const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double s = r - 1.6, t = r - 5;
  const double x = r <= 5 ? (((0.17023821103 * s + 1.3067284816) * s + 2.75681539) * s + 1.4234372777) /
                                ((0.12021132975 * s + 0.7370016425) * s + 1)
                          : (((0.017337203997 * t + 0.42868294337) * t + 3.081226386) * t + 6.657905115) /
                                ((0.012258202635 * t + 0.24197894225) * t + 1);
  return static_cast<float>(q < 0 ? -x : x);
}

/// The noise of one pixel, whose number in the output is `pixel`. One block of Philox serves 4 channels.
class PixelNoise {
 public:
  PixelNoise(uint64_t key, uint32_t pixel)
      : key_{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}, pixel_(pixel) {}

  /// Channels are asked for in rising order.
  float operator()(int channel) {
    if (channel % 4 == 0) block_ = philox4x32({pixel_, static_cast<uint32_t>(channel / 4), 0, 0}, key_);
    return normal_quantile(block_[static_cast<size_t>(channel % 4)]);
  }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t pixel_;
  std::array<uint32_t, 4> block_{};
};

}  // namespace penstock::detail
