// The inner loop of the coefficient store with AVX-512 VBMI. It decodes a whole block at once.
//
// Byte lane k belongs to coefficient k, and 64-bit lane r to row r. Summing the widths of the coefficients that are not
// 0 along a row gives the positions of their values in the row; summing over rows gives the positions of the rows in
// the block. vpermb then moves the bytes of each row to its lane, and vpmultishiftqb moves each value to its byte. A
// row has at most 56 bits, so that it fits 64 bits even when it begins at bit 7.
#include "loader/jpeg/store/store_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

// The headers of g++ 12 themselves use values that are not initialised (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#define PENSTOCK_TARGET __attribute__((target("avx512f,avx512bw,avx512vbmi,avx2,bmi,bmi2,lzcnt,popcnt")))

namespace penstock::detail {
namespace {

PENSTOCK_TARGET inline __m512i repeated(uint64_t lane) { return _mm512_set1_epi64(static_cast<int64_t>(lane)); }

/// Inclusive sums along each row. They are below 64, so that no byte overflows.
PENSTOCK_TARGET inline __m512i row_sums(__m512i widths) {
  widths = _mm512_add_epi8(widths, _mm512_slli_epi64(widths, 8));
  widths = _mm512_add_epi8(widths, _mm512_slli_epi64(widths, 16));
  return _mm512_add_epi8(widths, _mm512_slli_epi64(widths, 32));
}

/// Lane r > 0 holds the number of bits of the rows before row r. Lane 0 holds that of all rows.
PENSTOCK_TARGET inline __m512i bits_before(__m512i sums) {
  const __m512i totals = repeated(0x3F372F271F170F07);  // the last byte of each row
  return _mm512_sad_epu8(_mm512_maskz_permutexvar_epi8(0x7F3F1F0F070301FF, totals, sums), _mm512_setzero_si512());
}

/// For each of the 64 coefficients, 8 bits that begin with its field. `bit` (0 .. 7) is where the values of the block
/// begin in `bytes`.
PENSTOCK_TARGET inline __m512i fields_of(__m512i widths, __m512i sums, __m512i before, uint32_t bit, __m512i bytes) {
  const __m512i first = _mm512_set1_epi64(bit);
  const __m512i begins = _mm512_mask_add_epi64(first, 0xFE, before, first);
  const __m512i row_byte = _mm512_set4_epi64(0x0808080808080808, 0, 0x0808080808080808, 0);
  const __m512i index =
      _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_srli_epi64(begins, 3), row_byte), repeated(0x0706050403020100));
  const __m512i rows = _mm512_permutexvar_epi8(index, bytes);
  const __m512i shifts = _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_and_si512(begins, _mm512_set1_epi64(7)), row_byte),
                                         _mm512_sub_epi8(sums, widths));
  return _mm512_multishift_epi64_epi8(shifts, rows);
}

/// Looks up a byte for each width in a table of 16 bytes.
PENSTOCK_TARGET inline __m512i by_width(__m512i widths, uint64_t low, uint64_t high) {
  const __m512i table = _mm512_set4_epi64(static_cast<int64_t>(high), static_cast<int64_t>(low),
                                          static_cast<int64_t>(high), static_cast<int64_t>(low));
  return _mm512_shuffle_epi8(table, widths);
}

PENSTOCK_TARGET inline void write_block(__m512i widths, __m512i fields, __mmask64 mask, int16_t* to) {
  fields = _mm512_and_si512(fields, by_width(widths, 0x7F3F1F0F07030100, 0xFF));
  __m512i values = _mm512_maskz_sub_epi8(mask, fields, by_width(widths, 0x4020100804020100, 0x80));
  const __mmask64 is_positive = _kandn_mask64(_mm512_movepi8_mask(values), mask);
  values = _mm512_mask_add_epi8(values, is_positive, values, _mm512_set1_epi8(1));
  _mm512_store_si512(to, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(values)));
  _mm512_store_si512(to + 32, _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(values, 1)));
}

}  // namespace

PENSTOCK_TARGET bool decode_blocks_avx512(const StoreJob& given) {
  const StoreJob job = given;  // a copy, so that it is not aliased by what is written
  const CodebookTables& tables = *job.tables;
  uint32_t mask_bit = job.mask_bit, value_bit = job.value_bit;
  for (int i = 0; i < job.end; ++i) {
    const int entry = job.entries[i];
    const auto& head = tables.heads[entry];
    const __mmask64 mask = _pdep_u64(load_bits(job.bytes, mask_bit), head.positions);
    mask_bit += static_cast<uint32_t>(head.mask_bits());
    const __m512i widths = _mm512_maskz_mov_epi8(mask, _mm512_load_si512(tables.widths_of(entry).data()));
    const __m512i sums = row_sums(widths), before = bits_before(sums);
    const uint32_t begin = value_bit;
    value_bit += static_cast<uint32_t>(_mm_cvtsi128_si32(_mm512_castsi512_si128(before)));
    if (value_bit > job.bit_end) return false;
    if (i < job.begin) continue;
    const __m512i bytes = _mm512_loadu_si512(job.bytes + begin / 8);
    int16_t* block = job.blocks + (i - job.begin) * kBlockSize;
    write_block(widths, fields_of(widths, sums, before, begin % 8, bytes), mask, block);
    block[0] = job.dcs[i];
    job.rows[i - job.begin] = static_cast<uint8_t>((71 - _lzcnt_u64(mask)) / 8);
  }
  return true;
}

}  // namespace penstock::detail
#endif
