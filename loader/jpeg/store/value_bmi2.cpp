// The inner loop of StoreWriter with BMI2 and AVX2. It handles all 64 coefficients of a block alike, so that no branch
// depends on them, and one pext packs the values of a row of 8.
#include "loader/jpeg/store/value_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define PENSTOCK_TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace penstock::detail {
namespace {

/// The low bytes of 32 numbers of 16 bits, in order, from two vectors that `pack` narrows within each half.
PENSTOCK_TARGET inline __m256i in_order(__m256i packed) { return _mm256_permute4x64_epi64(packed, 0xD8); }

PENSTOCK_TARGET inline uint64_t places_of(__m256i bytes) { return static_cast<uint32_t>(_mm256_movemask_epi8(bytes)); }

struct HalfPlaces {
  uint64_t fitting, nonzero;
};

/// Puts the values of row kHalf * 4 and of the three rows after it. Bit k of the result stands for coefficient
/// kHalf * 32 + k.
template <int kHalf>
PENSTOCK_TARGET inline HalfPlaces put_half(const int16_t* block, const uint64_t* row_fields, BitWriter& writer) {
  const auto* from = reinterpret_cast<const __m256i*>(block) + 2 * kHalf;
  const __m256i first = _mm256_load_si256(from), second = _mm256_load_si256(from + 1);
  const __m256i bytes = in_order(_mm256_packs_epi16(first, second)), zero = _mm256_setzero_si256();
  // What is not -128 .. 127 was changed by narrowing, and fits no width.
  const __m256i offset = _mm256_set1_epi16(128);
  const __m256i too_large = in_order(_mm256_packus_epi16(_mm256_srli_epi16(_mm256_add_epi16(first, offset), 8),
                                                         _mm256_srli_epi16(_mm256_add_epi16(second, offset), 8)));
  const __m256i fields = _mm256_load_si256(reinterpret_cast<const __m256i*>(row_fields) + kHalf);
  // 2^(w-1) for a width w > 0, which holds all values of at most that magnitude; otherwise 0.
  const __m256i halves =
      _mm256_xor_si256(fields, _mm256_and_si256(_mm256_srli_epi16(fields, 1), _mm256_set1_epi8(0x7F)));
  const __m256i magnitudes = _mm256_abs_epi8(bytes);
  const __m256i is_small = _mm256_cmpeq_epi8(_mm256_min_epu8(magnitudes, halves), magnitudes);
  const __m256i is_zero = _mm256_cmpeq_epi8(bytes, zero);
  const __m256i fits = _mm256_andnot_si256(is_zero, _mm256_and_si256(is_small, _mm256_cmpeq_epi8(too_large, zero)));
  // value + 2^(w-1), minus 1 where the value is above 0
  const __m256i numbers = _mm256_add_epi8(_mm256_add_epi8(bytes, halves), _mm256_cmpgt_epi8(bytes, zero));
  alignas(32) uint64_t rows[4], used[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(rows), numbers);
  _mm256_store_si256(reinterpret_cast<__m256i*>(used), _mm256_and_si256(fields, fits));
  for (int row = 0; row < 4; ++row)
    writer.put(_pext_u64(rows[row], used[row]), static_cast<int>(_mm_popcnt_u64(used[row])));
  return {places_of(fits), places_of(is_zero) ^ 0xFFFFFFFF};
}

}  // namespace

PENSTOCK_TARGET BlockPlaces put_values_bmi2(const ValueJob& job, BitWriter& values) {
  const uint64_t* fields = job.tables->fields[job.entry].data();
  BitWriter writer = values;
  const HalfPlaces low = put_half<0>(job.block, fields, writer), high = put_half<1>(job.block, fields, writer);
  values = writer;
  const uint64_t fitting = low.fitting | high.fitting << 32, nonzero = low.nonzero | high.nonzero << 32;
  return {.mask = _pext_u64(fitting, job.tables->heads[job.entry].positions),
          .exceptional = nonzero & ~fitting & ~uint64_t{1}};
}

}  // namespace penstock::detail
#endif
