// The cheapest codebook entry of a block, in Highway SIMD.
#pragma once

#include <array>
#include <cstdint>

#include "loader/jpeg/codebook.h"

namespace penstock::detail {

/// The least width that holds each coefficient; [0]: the DC's difference. More than kMaxWidth (kMaxDcWidth): none does.
using BlockNeeds = std::array<uint8_t, kBlockSize>;

constexpr int kNoFit = 9;     // need of an AC coefficient that no width holds
constexpr int kNoFitDc = 13;  // of a DC difference

/// Needs of the ACs of `block`, row by row; [0] is 0.
BlockNeeds block_needs(const int16_t* block);
/// Width 0 holds 0; w holds -2^(w-1) .. 2^(w-1) - 1.
uint8_t dc_need(int difference);

struct BlockFit {
  int entry = 0;
  int bits = 0;  // DC field, mask, values and exceptions
};

/// Of the first `entry_count` entries the one of the fewest bits; of equals the first. `base_bits` is each entry's DC
/// width plus the number of its ACs' widths that are not 0. The same on every instruction set.
BlockFit best_fit(const BlockNeeds& needs, const ClassWidths& widths,
                  const std::array<uint16_t, kStoreEntries>& base_bits, int entry_count);

}  // namespace penstock::detail
