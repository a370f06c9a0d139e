// The bytes of the coefficient store: quantised DCT coefficients, stored so that decoding a symbol does not depend on
// the one before it.
//
// Lives here: the coefficient store: its bytes, its codebooks, its reader and its writer.
// Not here: Huffman codes (entropy), pixels (pixels); loader/device has the reader for GPUs.
//
// A store holds one picture. Numbers are little-endian, and bit fields fill each byte from its lowest bit on. The
// picture has R MCU rows, each of which is divided into G = ceil(mcu_columns / 8) groups of 8 MCUs (the last group of a
// row holds the rest).
//
//   bytes                what
//   4 x R                one u32 per row: where its first group begins, counted from the first byte of the store
//   2 x R x G            one u16 per group, row by row: its length in bytes
//   ...                  the groups, row by row, back to back
//
// A group of B blocks (MCU by MCU, and inside of an MCU in the order of the JPEG) and C components:
//
//   bytes                what
//   1                    u8, the number of exceptions E
//   C                    one i8 per component: its DC base, divided by 8
//   B                    one u8 per block: its entry. The first component has entries of the codebook's class 0, the
//                        second and third of three have entries of class 1; with four components all have class 0
//   bits                 one DC field per block, with the DC width w of its entry: difference + 2^(w-1). It has no bits
//                        for w = 0, where the difference is 0. The difference is taken to the DC of the component's
//                        block before it; for the first block of a component to 8 x base
//   bits                 one mask per block: one bit for each coefficient whose width is not 0, row by row. A set bit
//                        means that the coefficient is not 0
//   bits                 one value for each mask bit that is set, with the coefficient's width w. The values
//                        -2^(w-1) .. -1 and 1 .. 2^(w-1) are numbered from 0; with w = 8 the last one is never written
//   0 .. 7 bits          zeros, up to a byte
//   3 x E                one u24 per exception, sorted by block, then by coefficient; they replace what the bits say
//   128 x entries 255    i16 [64], row by row, for each block whose entry is 255, in order. Such a block has no
//                        bits and does not change the chain of DC differences
//
// An exception is block | coefficient << 7 | value << 13, where the value has 11 bits in two's complement. An exception
// for coefficient 0 is the DC itself. It changes the output only: later differences continue from the DC that the
// differences alone give.
//
// An example: a grey picture of one block, whose DC is -26 and whose coefficients 1, 8, 9 and 63 are 3, -2, 1 and 5.
// The codebook's entry 0 has DC width 6, and the widths 3, 2, 2 at the coefficients 1, 8, 9. The store has 14 bytes:
//
//   06 00 00 00          row 0 begins at byte 6
//   08 00                its group has 8 bytes
//   01 FD 00             1 exception, base -3: -24, entry 0
//   DE 8D                from the lowest bit on: 011110 (DC, 30 - 32 = -2) 111 (mask) 011 (6: 3) 00 (0: -2) 01 (2: 1)
//   80 BF 00             exception 00BF80: block 0, coefficient 63, value 5
//
// The codebook (codebook.h) gives each class 256 entries of 64 widths. Within a picture the head of a group has a fixed
// size per block, no state is carried from group to group, and positions inside of a group are prefix sums over entries
// (for DC fields and masks) and over masks (for values). A GPU may therefore decode with one warp per group.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

constexpr int kStoreClasses = 2;
constexpr int kStoreEntries = 256;    // per class
constexpr int kRawEntry = 255;        // a block whose 64 coefficients are stored as they are
constexpr int kSafeEntry = 254;       // an entry into which nearly every block fits: see Codebook
constexpr int kTrainedEntries = 254;  // the other entries
constexpr int kMaxWidth = 8;          // bits of an AC coefficient, so that it fits a byte lane
constexpr int kMaxRowBits = 56;       // bits of all ACs of a row: shifted by up to 7 bits, they fit one 64-bit load
constexpr int kMaxDcWidth = 12;       // bits of a DC difference: enough for all that 8-bit samples can give
constexpr int kExceptionBits = 24;    // bits that a coefficient costs when it does not fit its width
constexpr int kExceptionValueBits = 11;
constexpr int kMaxExceptions = 255;  // per group
constexpr size_t kExceptionBytes = 3;
constexpr size_t kRawBytes = 128;
constexpr int kDcBaseStep = 8;

}  // namespace penstock::detail
