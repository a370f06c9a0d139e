// touch() and break_page(): the pages of a memory map read, and a disk error under one.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>

namespace penstock::testing_data {

inline constexpr uintptr_t kPageBytes = 4096;

/// Reads all bytes. The sum is used, because otherwise the compiler would remove the reads.
inline void touch(std::span<const uint8_t> bytes) {
  const volatile uint8_t* const data = bytes.data();
  for (size_t i = 0; i < bytes.size(); ++i) (void)data[i];
}

/// Makes reading the mapped page of `byte` an error, as a disk error would. It maps an empty file there, of which no
/// page can be read.
inline void break_page(const uint8_t* byte) {
  const int nothing = memfd_create("nothing", 0);
  auto* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(byte) / kPageBytes * kPageBytes);
  ASSERT_EQ(mmap(page, kPageBytes, PROT_READ, MAP_SHARED | MAP_FIXED, nothing, 0), page);
  close(nothing);
}

}  // namespace penstock::testing_data
