// The coefficient store's bytes: quantised DCT coefficients without serial dependency between symbols.
//
// One picture. Numbers are little-endian; bit fields fill each byte from its lowest bit on. R MCU rows, each cut into
// G = ceil(mcu_columns / 8) groups of 8 MCUs (the row's last one holds the rest).
//
//   bytes                what
//   4 x R                u32 a row: where its first group begins, counted from the picture's first byte
//   2 x R x G            u16 a group, row by row: its length in bytes
//   ...                  the groups, row by row, back to back
//
// A group of B blocks (MCU by MCU, inside an MCU as the JPEG orders them) and C components:
//
//   bytes                what
//   1                    u8, number of exceptions E
//   C                    i8 a component: DC base / 8
//   B                    u8 a block: its entry. Entry e of the first component is entry e of the codebook's class 0; of
//                        the others, where there are 3, of class 1; otherwise all are of class 0.
//   bits                 a DC field a block, of the entry's DC width w: nothing for w = 0, where the difference is 0;
//                        else difference + 2^(w-1). The difference is to the same component's block before, to
//                        8 x base at first.
//   bits                 a mask a block: one bit for each coefficient whose width is not 0, in row-by-row order:
//   whether
//                        it is not 0.
//   bits                 a value for each mask bit that is set, of the coefficient's width w. The values are
//                        -2^(w-1) .. -1 and 1 .. 2^(w-1), counted from 0; of w = 8 the last one is never written.
//   0 .. 7 bits          zeros, up to a byte
//   3 x E                exceptions, u24: block in bits 18 .. 12 + 6, see below; they replace what stands above
//   128 x entries 255    i16 [64], row by row, of each block whose entry is 255, in order. Such a block has no fields,
//   no
//                        mask and no values; its DC leaves the chain of differences as it is.
//
// An exception is block | coefficient << 7 | value << 13, value of 11 bits, two's complement. One of coefficient 0 is
// the DC itself, and changes the output alone: differences continue from the chain's value.
//
// The codebook (codebook.h) gives each class 256 entries of 64 widths. Group headers are of fixed size for a picture,
// no state passes from group to group, and inside a group positions are prefix sums over entries (DC, masks) and masks
// (values): a GPU may take a warp a group.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

constexpr int kStoreClasses = 2;
constexpr int kStoreEntries = 256;    // a class
constexpr int kRawEntry = 255;        // 64 coefficients as they are
constexpr int kSafeEntry = 254;       // takes nearly everything: see Codebook
constexpr int kTrainedEntries = 254;  // the others
constexpr int kMaxWidth = 8;          // bits of an AC coefficient: a byte lane
constexpr int kMaxRowBits = 56;       // of a row's ACs: with a shift of 7, one 64-bit load has them
constexpr int kMaxDcWidth = 12;       // of a difference: all that 8-bit samples can have
constexpr int kExceptionBits = 24;    // cost of a coefficient that does not fit its width
constexpr int kExceptionValueBits = 11;
constexpr int kMaxExceptions = 255;  // a group
constexpr size_t kExceptionBytes = 3;
constexpr size_t kRawBytes = 128;
constexpr int kDcBaseStep = 8;

}  // namespace penstock::detail
