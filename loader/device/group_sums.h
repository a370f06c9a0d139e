// What a block of threads shares while it decodes a group of the coefficient store, and prefix sums over its blocks.
#pragma once

#include <cstdint>

#include "loader/device/job.h"
#include "loader/device/thread_block.h"

namespace penstock::detail {

constexpr int kChunk = kGroupThreads;  // blocks that are decoded at a time, one per thread
constexpr int kBlockStride = 66;       // i16; not a multiple of 64, so that threads use different banks of the memory
constexpr int kColumns = 8;            // threads that transform one block
constexpr int kBlocksAtOnce = kGroupThreads / kColumns;

/// Memory: 8 KB. It is not initialised. Sums have two halves: a step reads one and writes the other.
struct GroupShared {
  uint64_t masks[kMaxGroupBlocks];
  uint64_t chains[2][kMaxGroupBlocks];  // differences of DCs: 21 bits per component, each difference + 2048
  uint32_t heads[2][kMaxGroupBlocks];   // bits 0-9: DC bits, bits 10-22: mask bits, bits 23-29: blocks stored whole
  uint32_t values[2][kMaxGroupBlocks];  // bits of values
  uint32_t lengths[kGroupThreads];      // bytes of groups, one part per thread
  uint16_t entries[kMaxGroupBlocks];    // index in DeviceCodebook
  int16_t blocks[kChunk * kBlockStride];
  int16_t lines[kBlocksAtOnce][8][8];
};

/// Replaces values[0][i] by the sum of values[0][0 .. i], for i < count (Hillis, Steele 1986, "Data parallel
/// algorithms"). The result is in the returned half.
template <class T>
int prefix_sums(const ThreadBlock& block, T (*values)[kMaxGroupBlocks], int count) {
  int from = 0;
  for (int step = 1; step < count; step *= 2) {
    const T* in = values[from];
    T* out = values[1 - from];
    block.each([&](int thread) {
      for (int i = thread; i < count; i += block.size) out[i] = i < step ? in[i] : in[i] + in[i - step];
    });
    from = 1 - from;
  }
  return from;
}

}  // namespace penstock::detail
