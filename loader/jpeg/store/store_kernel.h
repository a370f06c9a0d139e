// The inner loop of the coefficient store: decodes masks and values of some blocks of one group. There is one version
// for each kind of processor.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "loader/jpeg/store/codebook.h"

namespace penstock::detail {

/// The number of bytes after a group that must be readable, whatever the group contains. DC fields (at most 80 of 12
/// bits each, after the group's head) are decoded before their sum is checked. The values of a block have at most 63
/// bytes, the first of which is at or before the end of the group.
constexpr size_t kStoreSlack = 128;

struct StoreJob {
  const CodebookTables* tables = nullptr;
  const uint8_t* bytes = nullptr;  // bytes of the group
  /// The bits at which the next mask and the next value begin. Requires that all masks of the blocks end at or before
  /// bit_end.
  uint32_t mask_bit = 0, value_bit = 0, bit_end = 0;
  const uint16_t* entries = nullptr;  // one per block of the group: its index in CodebookTables
  const int16_t* dcs = nullptr;       // one per block of the group
  int begin = 0, end = 0;             // blocks to write; those before `begin` are skipped
  int16_t* blocks = nullptr;          // where block `begin` is written; 64-byte aligned
  uint8_t* rows = nullptr;            // as McuRun::rows
};

/// Returns false when values reach beyond bit_end. The blocks that were written must not be used then.
using StoreKernel = bool (*)(const StoreJob& job);

/// All kernels give the same coefficients. On the 199 photographs (117 bits per block; Zen 4 with busy neighbours;
/// StoreSource included) they take 65, 15 and 11.6 ns per block, where the entropy decoder of libjpeg-turbo takes 117
/// ns.
bool decode_blocks_portable(const StoreJob& job);
#if defined(__x86_64__)
bool decode_blocks_bmi2(const StoreJob& job);    // needs BMI2 and AVX2
bool decode_blocks_avx512(const StoreJob& job);  // needs BMI2 and AVX-512 F, BW, VBMI: Ice Lake, Zen 4 and later
#endif

struct NamedStoreKernel {
  std::string_view name;
  StoreKernel kernel = nullptr;
};
/// The kernels that this processor can run, the best one last. BMI2 counts as missing where pdep is slow microcode:
/// AMD's family 17h (Zen 1 and 2).
std::span<const NamedStoreKernel> store_kernels();
StoreKernel best_store_kernel();

// The following is shared by the kernels.

static_assert(std::endian::native == std::endian::little, "the store's numbers are read as they stand");

template <typename T>
T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);  // g++ 12 would turn a sum of shifted bytes into eight loads
  return value;
}

/// The 64 bits from bit number `bit` on. Reads 16 bytes.
inline uint64_t load_bits(const uint8_t* bytes, uint32_t bit) {
  const uint8_t* at = bytes + bit / 8;
  return load<uint64_t>(at) >> bit % 8 | load<uint64_t>(at + 8) << 1 << (63 - bit % 8);
}

}  // namespace penstock::detail
