// sum_over_copies(): the order in which ranks are added.
#include "train/comm/sum_over_copies.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/rank_threads.h"

namespace penstock {
namespace {

/// 1 + 2^-53 is 1, but 2^-53 + 2^-53 is enough to change it.
TEST(SumOverCopiesTest, CopiesAreAddedPairwiseWhicheverOfTheirRanksHasTheNumbers) {
  const double small = std::ldexp(1, -53);
  for (const int parts : {1, 2, 3})
    for (int holder = 0; holder < parts; ++holder)
      run_ranks(4 * parts, [&](Comm& comm) {
        const int copy = comm.rank() / parts;
        const auto own = torch::zeros({2}, torch::kFloat64);
        if (comm.rank() % parts == holder) own[1] = copy == 0 ? 1 : small;
        const auto sum = sum_over_copies(comm, 4, own);
        EXPECT_EQ(sum[0].item<double>(), 0);
        EXPECT_EQ(sum[1].item<double>(), 1 + 2 * small) << parts << " parts, at part " << holder;
      });
}

}  // namespace
}  // namespace penstock
