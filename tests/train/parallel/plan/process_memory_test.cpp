// What the kernel has given a process.
#include "train/parallel/plan/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace penstock::detail {
namespace {

TEST(ProcessMemoryTest, MemoryThatIsTouchedForTheFirstTimeComesInPages) {
  constexpr size_t kPages = 64;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, kPages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto touch = [&] {
    const int64_t before = pages_of_kernel();
    for (size_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * page] = 1;
    return pages_of_kernel() - before;
  };
  EXPECT_GE(touch(), static_cast<int64_t>(kPages));
  EXPECT_LT(touch(), static_cast<int64_t>(kPages));
  munmap(memory, kPages * page);
}

}  // namespace
}  // namespace penstock::detail
