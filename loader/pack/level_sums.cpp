// level_sums() in Highway SIMD, compiled once for each instruction set. The best set is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loader/pack/level_sums.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include "hwy/highway.h"
#include "loader/pack/level_sums.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

HWY_INLINE void add_plainly(uint8_t level, LevelSums& sums) {
  sums.sum += level;
  sums.sum_of_squares += uint64_t{level} * level;
}

#if HWY_TARGET == HWY_SCALAR

/// There are no vectors: the caller does all of it plainly.
HWY_INLINE size_t add_vectors(const uint8_t*, size_t, int, std::array<LevelSums, 3>&) { return 0; }

#else
namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::Repartition<int16_t, D8>;
using D32 = hn::Repartition<int32_t, D8>;
using D64 = hn::Repartition<uint64_t, D8>;

/// The sums of one channel, lane by lane. A lane of the squares gets at most 4 x 255^2 per vector of levels, so that it
/// holds the sums of 131,000 levels or more.
class Sums {
 public:
  // Not defaulted, so that it has the instruction set of its file.
  HWY_INLINE Sums() : sum_(hn::Zero(D64())), squares_(hn::Zero(D32())), more_squares_(hn::Zero(D32())) {}

  HWY_INLINE void add(hn::Vec<D8> levels) {
    const D16 d16;
    const auto pairs = hn::BitCast(hn::Repartition<uint16_t, D8>(), levels);
    const auto even = hn::BitCast(d16, hn::And(pairs, hn::Set(hn::Repartition<uint16_t, D8>(), uint16_t{0xFF})));
    const auto odd = hn::BitCast(d16, hn::ShiftRight<8>(pairs));
    sum_ = hn::Add(sum_, hn::SumsOf8(levels));
    squares_ = hn::ReorderWidenMulAccumulate(D32(), even, even, squares_, more_squares_);
    squares_ = hn::ReorderWidenMulAccumulate(D32(), odd, odd, squares_, more_squares_);
  }

  HWY_INLINE LevelSums total() const {
    const hn::Repartition<uint64_t, D8> d64;
    const auto all = hn::BitCast(d64, hn::Add(squares_, more_squares_));
    const auto lower = hn::And(all, hn::Set(d64, uint64_t{0xFFFFFFFF}));
    return {hn::GetLane(hn::SumOfLanes(d64, sum_)),
            hn::GetLane(hn::SumOfLanes(d64, hn::Add(lower, hn::ShiftRight<32>(all))))};
  }

 private:
  hn::Vec<D64> sum_;
  hn::Vec<D32> squares_, more_squares_;
};

/// Adds up the pixels that fill whole vectors, and returns their number.
HWY_INLINE size_t add_vectors(const uint8_t* levels, size_t count, int channels, std::array<LevelSums, 3>& total) {
  const D8 d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  Sums a, b, c;
  for (; i + lanes <= count; i += lanes) {
    if (channels == 1) {
      a.add(hn::LoadU(d, levels + i));
      continue;
    }
    hn::Vec<D8> red, green, blue;
    hn::LoadInterleaved3(d, levels + 3 * i, red, green, blue);
    a.add(red);
    b.add(green);
    c.add(blue);
  }
  total = {a.total(), b.total(), c.total()};
  return i;
}

#endif

std::array<LevelSums, 3> level_sums(const uint8_t* levels, int width, int channels) {
  std::array<LevelSums, 3> total;
  const size_t count = static_cast<size_t>(width);
  for (size_t i = add_vectors(levels, count, channels, total); i < count; ++i)
    for (size_t channel = 0; channel < static_cast<size_t>(channels); ++channel)
      add_plainly(levels[i * channels + channel], total[channel]);
  return total;
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::detail {

HWY_EXPORT(level_sums);

std::array<LevelSums, 3> level_sums(const uint8_t* levels, int width, int channels) {
  return HWY_DYNAMIC_DISPATCH(level_sums)(levels, width, channels);
}

}  // namespace penstock::detail
#endif  // HWY_ONCE
