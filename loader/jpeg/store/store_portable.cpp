// The inner loop of the coefficient store for any processor, and the choice between the loops.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "loader/jpeg/store/store_kernel.h"

namespace penstock::detail {
namespace {

/// The number of bits of a block's values: the sum of the widths of the coefficients whose mask bit is set.
uint32_t value_bits(const EntryWidths& widths, const std::array<uint8_t, 64>& order, uint64_t mask) {
  uint32_t bits = 0;
  for (; mask != 0; mask &= mask - 1) bits += widths[order[std::countr_zero(mask)]];
  return bits;
}

/// Writes the ACs of a block, whose values begin at `bit`. Returns McuRun::rows of the block.
uint8_t write_block(const StoreJob& job, uint32_t bit, const EntryWidths& widths, const std::array<uint8_t, 64>& order,
                    uint64_t mask, int16_t* block) {
  std::memset(block, 0, kBlockSize * sizeof(int16_t));
  if (mask == 0) return 0;
  int k = 0;
  for (; mask != 0; mask &= mask - 1) {
    k = order[std::countr_zero(mask)];
    const int width = widths[k], half = 1 << width >> 1;
    const int value = static_cast<int>(load<uint16_t>(job.bytes + bit / 8) >> bit % 8 & ((1u << width) - 1)) - half;
    // The highest field of 8 bits gives -128, as in the SIMD kernels.
    block[k] = static_cast<int8_t>(value + (value >= 0));
    bit += static_cast<uint32_t>(width);
  }
  return static_cast<uint8_t>(1 + k / 8);
}

}  // namespace

bool decode_blocks_portable(const StoreJob& given) {
  const StoreJob job = given;  // a copy, so that it is not aliased by what is written
  uint32_t mask_bit = job.mask_bit, value_bit = job.value_bit;
  for (int i = 0; i < job.end; ++i) {
    const int entry = job.entries[i], mask_bits = job.tables->heads[entry].mask_bits();
    const EntryWidths& widths = job.tables->widths_of(entry);
    const auto& order = job.tables->order[entry];
    const uint64_t mask = load_bits(job.bytes, mask_bit) & ((uint64_t{1} << mask_bits) - 1);  // mask_bits is 63 at most
    const uint32_t begin = value_bit;
    mask_bit += static_cast<uint32_t>(mask_bits);
    value_bit += value_bits(widths, order, mask);
    if (value_bit > job.bit_end) return false;
    if (i < job.begin) continue;
    int16_t* block = job.blocks + (i - job.begin) * kBlockSize;
    job.rows[i - job.begin] = write_block(job, begin, widths, order, mask, block);
    block[0] = job.dcs[i];
  }
  return true;
}

std::span<const NamedStoreKernel> store_kernels() {
  static const auto kernels = [] {
    std::array<NamedStoreKernel, 3> found{};
    size_t count = 0;
    found[count++] = {"portable", decode_blocks_portable};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
        !__builtin_cpu_is("amdfam17h")) {
      found[count++] = {"bmi2", decode_blocks_bmi2};
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512vbmi"))
        found[count++] = {"avx512", decode_blocks_avx512};
    }
#endif
    return std::pair(found, count);
  }();
  return std::span(kernels.first).first(kernels.second);
}

StoreKernel best_store_kernel() { return store_kernels().back().kernel; }

}  // namespace penstock::detail
