// What a step frees is there for the next one: counted in page faults, in a process of its own, because the setting
// holds for all of a process.
#include "train/tensor/allocator.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <torch/types.h>

#include <cstdlib>
#include <vector>

namespace penstock {
namespace {

long faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

constexpr long kPages = 51200;  // of 4 KiB: 40 tensors of 2 to 8 MB

/// Page faults of making 40 tensors and freeing them in reverse order, as a small network does with its activations.
long faults_of_a_step() {
  const long before = faults();
  std::vector<torch::Tensor> activations;
  for (int i = 0; i < 40; ++i) activations.push_back(torch::ones({(i % 4 + 1) << 19}));
  while (!activations.empty()) activations.pop_back();
  return faults() - before;
}

TEST(FreedMemoryTest, TheNextStepFindsIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // OpenMP's threads do not survive a fork
  EXPECT_EXIT(
      {
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // huge pages would hide faults
        keep_freed_memory();
        faults_of_a_step();
        const long second = faults_of_a_step();
        std::_Exit(second < kPages / 2 ? 0 : 1);  // a third; all of them without
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace penstock
