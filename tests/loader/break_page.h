// break_page(): a disk error under a memory map.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace penstock::testing_data {

inline constexpr uintptr_t kPageBytes = 4096;

/// Makes reading the mapped page of `byte` an error, as a disk error would. It maps an empty file there, of which no
/// page can be read.
inline void break_page(const uint8_t* byte) {
  const int nothing = memfd_create("nothing", 0);
  auto* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(byte) / kPageBytes * kPageBytes);
  ASSERT_EQ(mmap(page, kPageBytes, PROT_READ, MAP_SHARED | MAP_FIXED, nothing, 0), page);
  close(nothing);
}

}  // namespace penstock::testing_data
