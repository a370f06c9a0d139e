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
//   C                    i8 a component: its DC base, divided by 8
//   B                    u8 a block: its entry, of the codebook's class 0 for the first component, of class 1 for the
//                        second and third of three; all of four are of class 0
//   bits                 a DC field a block, of its entry's DC width w: difference + 2^(w-1); nothing for w = 0, where
//                        the difference is 0. It is to the component's block before, at first to 8 x base.
//   bits                 a mask a block: whether the coefficient is not 0, a bit for each whose width is not 0, row by
//                        row
//   bits                 a value for each mask bit that is set, of the coefficient's width w: -2^(w-1) .. -1 and
//                        1 .. 2^(w-1), counted from 0; of w = 8 the last one is never written
//   0 .. 7 bits          zeros, up to a byte
//   3 x E                u24 an exception, by block, then coefficient; they replace what stands above
//   128 x entries 255    i16 [64], row by row, for each block whose entry is 255, in order. It has no bits, and leaves
//                        the chain of DC differences as it is.
//
// An exception is block | coefficient << 7 | value << 13, value of 11 bits, two's complement. One of coefficient 0 is
// the DC itself, and changes the output alone: differences continue from the chain's value.
//
// A grey picture of one block: DC -26, coefficient 1 is 3, 8 is -2, 9 is 1, 63 is 5. The codebook's entry 0 has DC
// width 6, and widths 3, 2, 2 at coefficients 1, 8, 9. Its 14 bytes:
//
//   06 00 00 00          row 0 begins at byte 6
//   08 00                its group has 8 bytes
//   01 FD 00             1 exception, base -3: -24, entry 0
//   DE 8D                from the lowest bit on: 011110 (DC, 30 - 32 = -2) 111 (mask) 011 (6: 3) 00 (0: -2) 01 (2: 1)
//   80 BF 00             exception 00BF80: block 0, coefficient 63, value 5
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
