// best_fit(): finds the cheapest codebook entry for a block, in Highway SIMD.
#pragma once

#include <array>
#include <cstdint>

#include "loader/jpeg/codebook.h"

namespace penstock::detail {

/// The least width that holds each coefficient; element 0 is for the difference of the DC. A need above kMaxWidth (for
/// the DC: above kMaxDcWidth) means that no width holds it.
using BlockNeeds = std::array<uint8_t, kBlockSize>;

constexpr int kNoFit = 9;     // the need of an AC coefficient that no width holds
constexpr int kNoFitDc = 13;  // the need of a DC difference that no width holds

/// The needs of the AC coefficients of `block`, row by row. Element 0 is 0.
BlockNeeds block_needs(const int16_t* block);
/// The need of a DC difference. Width 0 holds 0; a width w > 0 holds -2^(w-1) .. 2^(w-1) - 1.
uint8_t dc_need(int difference);

struct BlockFit {
  int entry = 0;
  int bits = 0;  // of DC field, mask, values and exceptions together
};

/// The entry with the fewest bits among the first `entry_count` entries; of several with equally few bits, the first
/// one. `base_bits` holds for each entry its DC width plus the number of its AC widths that are not 0. The result is
/// the same on every instruction set.
BlockFit best_fit(const BlockNeeds& needs, const ClassWidths& widths,
                  const std::array<uint16_t, kStoreEntries>& base_bits, int entry_count);

}  // namespace penstock::detail
