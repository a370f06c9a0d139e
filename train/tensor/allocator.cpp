// Thresholds of glibc's allocator, and the switch of LibTorch's.
#include "train/tensor/allocator.h"

#include <cstdlib>
#include <limits>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace penstock {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestThreshold = 32 << 20;  // glibc refuses more; larger blocks go back to the kernel in any case
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
  setenv("THP_MEM_ALLOC_ENABLE", "1", 0);  // read by LibTorch's allocator when it makes its first tensor
}

}  // namespace penstock
