// The inner loop of StoreWriter: makes the mask and the values of a block. There is one version for each kind of
// processor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "loader/jpeg/base/bit_writer.h"
#include "loader/jpeg/store/block_needs.h"
#include "loader/jpeg/store/codebook.h"

namespace penstock::detail {

struct ValueJob {
  const CodebookTables* tables = nullptr;
  int entry = 0;                   // index in CodebookTables
  const int16_t* block = nullptr;  // 64 coefficients, 64-byte aligned; the DC is not looked at
  std::span<const Need> needs;     // of the ACs
  // One element per coefficient: which bit of the entry's mask belongs to it.
  const uint8_t* mask_bits = nullptr;
};

struct BlockPlaces {
  uint64_t mask = 0;         // as the store has it
  uint64_t exceptional = 0;  // bit k is set when AC k is not 0 and does not fit its width
};

/// Puts the values of the ACs that fit their widths, at most 8 x kMaxRowBits bits.
using ValueKernel = BlockPlaces (*)(const ValueJob& job, BitWriter& values);

/// All kernels give the same bits.
BlockPlaces put_values_portable(const ValueJob& job, BitWriter& values);
#if defined(__x86_64__)
BlockPlaces put_values_bmi2(const ValueJob& job, BitWriter& values);  // needs BMI2 and AVX2
#endif

struct NamedValueKernel {
  std::string_view name;
  ValueKernel kernel = nullptr;
};
/// The kernels that this processor can run, the best one last; where pext is slow, so is pdep: see store_kernels().
std::span<const NamedValueKernel> value_kernels();

}  // namespace penstock::detail
