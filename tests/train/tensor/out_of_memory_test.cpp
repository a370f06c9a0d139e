// Out of memory: LibTorch's message becomes one line with the amount and the flag.
#include "train/tensor/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/testing.h"

namespace penstock {
namespace {

TEST(OutOfMemoryTest, TheAmountIsTakenFromWhatTheAllocatorsSay) {
  EXPECT_EQ(missing_memory("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 1 GiB"),
            "20.00 MiB on the device");
  EXPECT_EQ(missing_memory("mat1 and mat2 shapes cannot be multiplied"), std::nullopt);
}

TEST(OutOfMemoryTest, ALackOfMemoryIsADeviceErrorThatNamesTheFlag) {
  const auto message = message_of(ErrorKind::kDevice, [] {
    naming_memory("--batch-size 64", "a step", "a smaller one", [] { return torch::empty({int64_t{1} << 50}); });
  });
  EXPECT_THAT(message, testing::StartsWith("--batch-size 64: no memory for 4503.6 TB of a step"));
  EXPECT_THAT(message, testing::EndsWith("; expected a smaller one, or more memory"));
  EXPECT_THAT(
      message_of(ErrorKind::kDevice, [] { naming_memory("a", "b", "c", []() -> int { throw std::bad_alloc(); }); }),
      testing::StartsWith("a: no memory for b"));
}

TEST(OutOfMemoryTest, OtherErrorsPassAsTheyAre) {
  EXPECT_EQ(naming_memory("a", "b", "c", [] { return 3; }), 3);
  EXPECT_THROW(naming_memory("a", "b", "c", []() -> int { throw std::out_of_range("x"); }), std::out_of_range);
  EXPECT_EQ(message_of(ErrorKind::kIo,
                       [] { naming_memory("a", "b", "c", []() -> int { throw io_error("x; expected y"); }); }),
            "x; expected y");
}

}  // namespace
}  // namespace penstock
