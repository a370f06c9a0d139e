// FitTable in Highway SIMD, compiled once for each instruction set. The best set is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loader/jpeg/store/block_fit.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include <algorithm>
#include <bit>
#include <cstring>

#include "hwy/highway.h"
#include "loader/jpeg/store/block_fit.h"

#ifndef PENSTOCK_BLOCK_FIT_JOB
#define PENSTOCK_BLOCK_FIT_JOB
namespace penstock::detail {

struct FitJob {
  const uint8_t* base;   // kStoreEntries sums to begin with
  const uint8_t* rows;   // kStoreEntries addends per need
  const uint8_t* least;  // one addend per need, the same for all entries
  const Need *begin, *end;
  int entry_count;
};

struct LeastSum {
  int entry = 0, sum = 0;
  int common = 0;  // what the needs cost with every entry
};

constexpr int kFull = 255;  // a sum of 255 bits or more

}  // namespace penstock::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::CappedTag<uint8_t, 64>;
using V8 = hn::Vec<D8>;

/// Writes the sums of kVectors (1, 2 or 4) vectors of entries from entry `first` on, and returns their minima, lane by
/// lane. `common` becomes the sum of what is the same for all entries.
template <int kVectors>
HWY_INLINE V8 add_up(const FitJob& job, size_t first, uint8_t* sums, int& common) {
  const D8 d;
  // With fewer than four vectors the others are dead code.
  const size_t lanes = hn::Lanes(d), b_at = kVectors > 1 ? lanes : 0, c_at = kVectors > 2 ? 2 * lanes : 0,
               e_at = kVectors > 2 ? 3 * lanes : 0;
  const uint8_t* base = job.base + first;
  V8 a = hn::Load(d, base), b = hn::Load(d, base + b_at), c = hn::Load(d, base + c_at), e = hn::Load(d, base + e_at);
  common = 0;
  for (const Need* need = job.begin; need != job.end; ++need) {
    common += job.least[*need];
    const uint8_t* row = job.rows + size_t{*need} * kStoreEntries + first;
    a = hn::SaturatedAdd(a, hn::Load(d, row));
    if constexpr (kVectors > 1) b = hn::SaturatedAdd(b, hn::Load(d, row + b_at));
    if constexpr (kVectors > 2) {
      c = hn::SaturatedAdd(c, hn::Load(d, row + c_at));
      e = hn::SaturatedAdd(e, hn::Load(d, row + e_at));
    }
  }
  hn::Store(a, d, sums + first);
  if constexpr (kVectors == 1) return a;
  hn::Store(b, d, sums + first + b_at);
  if constexpr (kVectors == 2) return hn::Min(a, b);
  hn::Store(c, d, sums + first + c_at);
  hn::Store(e, d, sums + first + e_at);
  return hn::Min(hn::Min(a, b), hn::Min(c, e));
}

/// Highway 1.0.3 has no MinOfLanes for u8.
HWY_INLINE uint8_t least_lane(V8 sums) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(sums);
#else
  const hn::Repartition<uint16_t, D8> d16;
  const auto pairs = hn::BitCast(d16, sums);
  const auto least = hn::Min(hn::And(pairs, hn::Set(d16, uint16_t{0xFF})), hn::ShiftRight<8>(pairs));
  return static_cast<uint8_t>(hn::GetLane(hn::MinOfLanes(d16, least)));
#endif
}

/// The first of kStoreEntries sums that is `wanted`. Has no branch, since nobody can predict it. Requires that there is
/// one among the first `count`.
HWY_INLINE int find_first(const uint8_t* sums, size_t count, int wanted) {
#if HWY_TARGET == HWY_SCALAR
  return static_cast<int>(std::find(sums, sums + count, wanted) - sums);
#else
  const D8 d;
  const auto all_wanted = hn::Set(d, static_cast<uint8_t>(wanted));
  alignas(64) uint8_t bits[kStoreEntries / 8 + 8] = {};  // StoreMaskBits() may write 8 bytes
  for (size_t at = 0; at < count; at += hn::Lanes(d))
    hn::StoreMaskBits(d, hn::Eq(hn::Load(d, sums + at), all_wanted), bits + at / 8);
  // A vector of all words would wait until what was stored in smaller parts has left for the cache.
  uint64_t place = 0;
  for (int i = kStoreEntries / 64 - 1; i >= 0; --i) {
    uint64_t word;
    std::memcpy(&word, bits + 8 * i, sizeof word);
    const auto first = static_cast<uint64_t>(std::countr_zero(word)), is_empty = uint64_t{word == 0};
    place = first + (place & (0 - is_empty));  // the first one of an empty word is 64
  }
  return static_cast<int>(place);
#endif
}

/// Finds the entry with the least sum, the first one of several.
HWY_NOINLINE LeastSum least_sum(const FitJob& given) {
  const FitJob job = given;
  const size_t lanes = hn::Lanes(D8()), count = static_cast<size_t>(job.entry_count);
  alignas(64) uint8_t sums[kStoreEntries];
  LeastSum fit;
  V8 minima;
  if (count <= lanes) {
    minima = add_up<1>(job, 0, sums, fit.common);
  } else if (count <= 2 * lanes) {
    minima = add_up<2>(job, 0, sums, fit.common);
  } else {
    minima = add_up<4>(job, 0, sums, fit.common);
    for (size_t first = 4 * lanes; first < count; first += 4 * lanes)
      minima = hn::Min(minima, add_up<4>(job, first, sums, fit.common));
  }
  fit.sum = least_lane(minima);
  fit.entry = find_first(sums, count, fit.sum);
  return fit;
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::detail {

HWY_EXPORT(least_sum);

void FitTable::set(const ClassWidths& widths, int entry_count) {
  entry_count_ = entry_count;
  base_.fill(kFull);
  for (int entry = 0; entry < entry_count; ++entry)
    base_[entry] = static_cast<uint8_t>(widths[entry][0] + (kBlockSize - 1) -
                                        std::count(widths[entry].begin() + 1, widths[entry].end(), 0));
  for (int k = 0; k < kBlockSize; ++k) {
    Row held{};  // one element per entry: its width for coefficient k
    for (int entry = 0; entry < entry_count; ++entry) held[entry] = widths[entry][k];
    for (int width = 1; width <= (k == 0 ? kNoFitDc : kNoFit); ++width) {
      Row& row = excess_[need_of(k, width)];
      for (int entry = 0; entry < kStoreEntries; ++entry)
        row[entry] = held[entry] < width ? kExceptionBits : k == 0 ? 0 : held[entry];
      const uint8_t least = *std::min_element(row.begin(), row.begin() + entry_count);
      for (uint8_t& bits : row) bits = static_cast<uint8_t>(bits - least);
      least_[need_of(k, width)] = least;
    }
  }
}

BlockFit FitTable::best(std::span<const Need> needs) const {
  const auto [entry, sum, common] = HWY_DYNAMIC_DISPATCH(least_sum)({.base = base_.data(),
                                                                     .rows = excess_[0].data(),
                                                                     .least = least_.data(),
                                                                     .begin = needs.data(),
                                                                     .end = needs.data() + needs.size(),
                                                                     .entry_count = entry_count_});
  if (sum < kFull) return {entry, sum + common};
  return best_of_large_sums(needs, common);
}

BlockFit FitTable::best_of_large_sums(std::span<const Need> needs, int common) const {
  std::array<uint16_t, kStoreEntries> sums;  // at most 64 x 24 + 75 bits
  std::copy(base_.begin(), base_.end(), sums.begin());
  for (const Need need : needs)
    for (int entry = 0; entry < kStoreEntries; ++entry)
      sums[entry] = static_cast<uint16_t>(sums[entry] + excess_[need][entry]);
  const auto least = std::min_element(sums.begin(), sums.begin() + entry_count_);
  return {static_cast<int>(least - sums.begin()), *least + common};
}

}  // namespace penstock::detail
#endif
