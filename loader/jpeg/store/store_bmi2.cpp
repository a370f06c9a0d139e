// The inner loop of the coefficient store with BMI2 and AVX2. One pdep decodes a row of 8 values.
#include "loader/jpeg/store/store_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define PENSTOCK_TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace penstock::detail {
namespace {

/// Spreads half number kHalf of the bits of `mask` to bytes: 0xFF for a set bit, otherwise 0.
template <int kHalf>
PENSTOCK_TARGET inline __m256i spread(__m256i mask) {
  const __m256i bytes = _mm256_add_epi8(
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303), _mm256_set1_epi8(4 * kHalf));
  const __m256i bits = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(mask, bytes), bits), bits);
}

/// Makes four rows of signed values from their fields f: f - 2^(w-1), plus 1 where that is not negative. `halves` holds
/// 2^(w-1) per byte, or 0 for a byte without a field, whose value is 0.
PENSTOCK_TARGET inline __m256i signed_values(__m256i values, __m256i halves) {
  const __m256i centered = _mm256_sub_epi8(values, halves);
  const __m256i is_negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), centered);
  return _mm256_add_epi8(centered, _mm256_andnot_si256(is_negative, _mm256_min_epu8(halves, _mm256_set1_epi8(1))));
}

PENSTOCK_TARGET inline void store_rows(__m256i values, int16_t* to) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_cvtepi8_epi16(_mm256_castsi256_si128(values)));
  _mm256_store_si256(reinterpret_cast<__m256i*>(to) + 1, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(values, 1)));
}

/// 2^(w-1) in each byte whose low w bits are set in `fields`; 0 where none is.
PENSTOCK_TARGET inline __m256i halves_of(__m256i fields) {
  return _mm256_xor_si256(fields, _mm256_and_si256(_mm256_srli_epi16(fields, 1), _mm256_set1_epi8(0x7F)));
}

/// Writes row kHalf * 4 and the three rows after it, and moves `bit` to the end of their values.
template <int kHalf>
PENSTOCK_TARGET inline void write_half(const uint8_t* bytes, uint32_t& bit, const uint64_t* row_fields, __m256i mask,
                                       int16_t* to) {
  alignas(32) uint64_t fields[4];
  const auto* table = reinterpret_cast<const __m256i*>(row_fields) + kHalf;
  const __m256i valued = _mm256_and_si256(_mm256_load_si256(table), spread<kHalf>(mask));
  _mm256_store_si256(reinterpret_cast<__m256i*>(fields), valued);
  uint64_t rows[4];
  for (int row = 0; row < 4; ++row) {
    rows[row] = _pdep_u64(load<uint64_t>(bytes + bit / 8) >> bit % 8, fields[row]);
    bit += static_cast<uint32_t>(_mm_popcnt_u64(fields[row]));
  }
  const __m256i values = _mm256_set_epi64x(static_cast<int64_t>(rows[3]), static_cast<int64_t>(rows[2]),
                                           static_cast<int64_t>(rows[1]), static_cast<int64_t>(rows[0]));
  store_rows(signed_values(values, halves_of(valued)), to + kHalf * 32);
}

}  // namespace

PENSTOCK_TARGET bool decode_blocks_bmi2(const StoreJob& given) {
  const StoreJob job = given;  // a copy, so that it is not aliased by what is written
  const CodebookTables& tables = *job.tables;
  uint32_t mask_bit = job.mask_bit, value_bit = job.value_bit;
  for (int i = 0; i < job.end; ++i) {
    const int entry = job.entries[i];
    const auto& head = tables.heads[entry];
    const uint64_t mask = _pdep_u64(load_bits(job.bytes, mask_bit), head.positions);
    mask_bit += static_cast<uint32_t>(head.mask_bits());
    const auto& width_bits = tables.width_bits[entry];
    const uint32_t begin = value_bit;
    for (int bit = 0; bit < 4; ++bit) value_bit += static_cast<uint32_t>(_mm_popcnt_u64(mask & width_bits[bit])) << bit;
    if (value_bit > job.bit_end) return false;
    if (i < job.begin) continue;
    int16_t* block = job.blocks + (i - job.begin) * kBlockSize;
    uint32_t bit = begin;
    const __m256i masks = _mm256_set1_epi64x(static_cast<int64_t>(mask));
    write_half<0>(job.bytes, bit, tables.fields[entry].data(), masks, block);
    if (mask >> 32 != 0)
      write_half<1>(job.bytes, bit, tables.fields[entry].data(), masks, block);
    else
      std::memset(block + 32, 0, 32 * sizeof(int16_t));
    block[0] = job.dcs[i];
    job.rows[i - job.begin] = static_cast<uint8_t>((71 - _lzcnt_u64(mask)) / 8);
  }
  return true;
}

}  // namespace penstock::detail
#endif
