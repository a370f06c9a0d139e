// The coefficient store's inner loop: masks and values of some blocks of one group, for each kind of processor.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "loader/jpeg/codebook.h"

namespace penstock::detail {

/// Bytes behind a group that may be read, whatever the group says: DC fields, 80 of 12 bits behind a group's head, are
/// decoded before their sum is checked; a block's values are at most 63 bytes, of which the first one lies at or before
/// the group's end.
constexpr size_t kStoreSlack = 128;

struct StoreJob {
  const CodebookTables* tables = nullptr;
  const uint8_t* bytes = nullptr;  // of the group
  /// Where the next mask and value begin. Requires that every mask of the blocks ends at or before bit_end.
  uint32_t mask_bit = 0, value_bit = 0, bit_end = 0;
  const uint16_t* entries = nullptr;  // a block of the group, numbers in CodebookTables
  const int16_t* dcs = nullptr;       // a block of the group
  int begin = 0, end = 0;             // blocks to write; those before `begin` are passed over
  int16_t* blocks = nullptr;          // of block `begin`; 64-byte aligned
  uint8_t* rows = nullptr;            // see McuRun
};

/// False when values pass bit_end: the blocks written are then not to be used.
using StoreKernel = bool (*)(const StoreJob& job);

/// All give the same coefficients; photographs, Zen 4, ns a block: see each.
bool decode_blocks_portable(const StoreJob& job);
#if defined(__x86_64__)
bool decode_blocks_bmi2(const StoreJob& job);    // BMI2, AVX2
bool decode_blocks_avx512(const StoreJob& job);  // BMI2, AVX-512 F, BW, VBMI: Ice Lake, Zen 4 and later
#endif

struct NamedStoreKernel {
  std::string_view name;
  StoreKernel kernel = nullptr;
};
/// Those that this processor runs, the best last. BMI2 counts as missing where pdep is microcode: AMD's family 17h, Zen
/// 1 and 2, some 100 ns a pdep.
std::span<const NamedStoreKernel> store_kernels();
StoreKernel best_store_kernel();

// What the kernels share.

static_assert(std::endian::native == std::endian::little, "the store's numbers are read as they stand");

template <typename T>
T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);  // g++ 12 makes eight loads of a sum of shifted bytes
  return value;
}

/// The 64 bits from bit `bit` on; reads 16 bytes.
inline uint64_t load_bits(const uint8_t* bytes, uint32_t bit) {
  const uint8_t* at = bytes + bit / 8;
  return load<uint64_t>(at) >> bit % 8 | load<uint64_t>(at + 8) << 1 << (63 - bit % 8);
}

}  // namespace penstock::detail
