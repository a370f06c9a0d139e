// What the kernel has given a process.
#include "train/parallel/plan/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace penstock::detail {
namespace {

/// Pages that were never touched before.
class Pages {
 public:
  Pages() : memory_(mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0)) {}
  ~Pages() { munmap(memory_, bytes()); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// Returns how many pages that took from the kernel.
  int64_t touch() {
    const int64_t before = pages_of_kernel();
    for (size_t i = 0; i < kCount; ++i) static_cast<volatile char*>(memory_)[i * page()] = 1;
    return pages_of_kernel() - before;
  }

  static constexpr size_t kCount = 64;

 private:
  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  static size_t bytes() { return kCount * page(); }
  void* memory_;
};

TEST(ProcessMemoryTest, WhatIsMeasuredHasTheMemoryThatItTakes) {
  std::vector<std::unique_ptr<Pages>> taken;
  const auto takes_pages = [&taken](size_t runs) {
    taken.clear();
    return settle([&] {
      if (taken.size() < runs) taken.push_back(std::make_unique<Pages>());
      if (taken.size() <= runs) taken.back()->touch();
    });
  };
  EXPECT_EQ(settle([] {}), 1);
  EXPECT_EQ(takes_pages(2), 3);
  EXPECT_EQ(takes_pages(1000), 5);
}

TEST(ProcessMemoryTest, MemoryThatIsTouchedForTheFirstTimeComesInPages) {
  Pages pages;
  EXPECT_GE(pages.touch(), static_cast<int64_t>(Pages::kCount));
  EXPECT_LT(pages.touch(), static_cast<int64_t>(Pages::kCount));
}

}  // namespace
}  // namespace penstock::detail
