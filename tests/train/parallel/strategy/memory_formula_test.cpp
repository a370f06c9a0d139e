// Memory formula: what a plan keeps of each kind of tensors.
#include "train/parallel/strategy/memory_formula.h"

#include <gtest/gtest.h>

#include "core/spec.h"
#include "core/text.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {
namespace {

/// "parameters phi, gradients phi / 2, optimizer 2 phi / 2".
std::string formula(const std::string& mode, int ranks, int slots, bool keeps_average = false) {
  std::vector<std::string> kinds;
  for (const auto& kind : memory_formula(plan_of(parse_spec("mode", mode), {.ranks = ranks}), slots, keeps_average))
    kinds.push_back(concat(kind.kind, " ", kind.text()));
  return join(kinds);
}

TEST(MemoryFormulaTest, KindsAreThoseThatAPlanKeeps) {
  EXPECT_EQ(formula("ddp", 2, 1), "parameters phi, gradients phi, optimizer phi");
  EXPECT_EQ(formula("zero(stage=2)", 3, 2), "parameters phi, gradients phi / 3, optimizer 2 phi / 3");
  EXPECT_EQ(formula("pipeline(data=2,zero=1)", 4, 1), "parameters phi, gradients phi, optimizer phi / 2");
  EXPECT_EQ(formula("single", 1, 1, true), "parameters phi, gradients phi, optimizer phi, average phi");
  EXPECT_EQ(formula("ddp(local-steps=4)", 2, 1), "parameters phi, gradients phi, optimizer phi");  // the mean
  EXPECT_EQ(formula("ddp(local-steps=4,outer-rate=0.5)", 2, 1),
            "parameters phi, gradients phi, optimizer phi, outer phi");
  EXPECT_EQ(formula("ddp(local-steps=4,outer=nesterov)", 2, 1),
            "parameters phi, gradients phi, optimizer phi, outer 2 phi");
}

TEST(MemoryFormulaTest, OnlyParametersAndTheirAverageHaveFrozenOnes) {
  const auto kinds = memory_formula(plan_of(parse_spec("mode", "zero"), {.ranks = 4}), 2, /*keeps_average=*/true);
  EXPECT_EQ(kept_bytes(kinds, /*all_bytes=*/100, /*trained_bytes=*/80), 100 + 80 + 2 * 80 / 4 + 100);
}

}  // namespace
}  // namespace penstock::detail
