// The sizes of blocks, MCUs and groups, for the processor's decoder and for the device's.
#pragma once

namespace penstock::detail {

constexpr int kBlockSize = 64;     // coefficients in a block
constexpr int kMaxMcuBlocks = 10;  // the most blocks that T.81, B.2.3 allows in an MCU
/// The number of MCUs that are read together: the default distance between points of a seek index, and the size of a
/// group of the coefficient store.
constexpr int kGroupMcus = 8;
constexpr int kMaxGroupBlocks = kGroupMcus * kMaxMcuBlocks;

}  // namespace penstock::detail
