// plan_storage(): the cheapest form that reaches the target, with the fewest workers.
#include "loader/pack/storage_plan.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

/// keep is small and slow, coef a little larger and faster, raw large and fast, and resized small, fast and changed.
std::vector<StorageForm> forms() {
  return {{"keep", true, 100e3, {{1, 100}, {2, 200}, {4, 400}}},
          {"coef", true, 110e3, {{1, 200}, {2, 400}, {4, 800}}},
          {"raw", true, 600e3, {{1, 500}, {2, 1000}, {4, 2000}}},
          {"resized", false, 30e3, {{1, 400}, {2, 800}, {4, 1600}}}};
}

TEST(StoragePlanTest, TheFormWithTheFewestBytesOfThoseThatReachTheTargetIsChosen) {
  EXPECT_EQ(plan_storage(forms(), {.images_per_second = 350}).best, 0);
  EXPECT_EQ(plan_storage(forms(), {.images_per_second = 700}).best, 1);
  EXPECT_EQ(plan_storage(forms(), {.images_per_second = 900}).best, 2) << "other pixels are the last resort";
  auto slow = forms();
  slow[2].rates = {{1, 160}, {2, 160}, {4, 160}};
  EXPECT_EQ(plan_storage(slow, {.images_per_second = 900}).best, 3) << "raw would need another link";
}

TEST(StoragePlanTest, TheFewestWorkersThatAreEnoughAreAdvised) {
  EXPECT_EQ(plan_storage(forms(), {.images_per_second = 200}).forms[0].workers, 2);
  EXPECT_EQ(plan_storage(forms(), {.images_per_second = 290}).forms[0].workers, 3) << "between 2 and 4 it grows evenly";
  EXPECT_EQ(plan_storage(forms(), {.images_per_second = 50}).forms[0].workers, 1);
  EXPECT_EQ(plan_storage(forms(), {.images_per_second = 5000}).forms[0].workers, 4) << "the best number";
  const auto slower = plan_storage({{"keep", true, 1, {{1, 300}, {2, 200}}}}, {.images_per_second = 500});
  EXPECT_EQ(slower.forms[0].workers, 1) << "more workers were slower";
}

TEST(StoragePlanTest, NodesShareTheTarget) {
  const auto plan = plan_storage(forms(), {.images_per_second = 1600, .nodes = 4});
  EXPECT_EQ(plan.best, 0);
  EXPECT_EQ(plan.forms[0].workers, 4);
  EXPECT_NEAR(plan.forms[0].most, 1600, 1e-9);
}

TEST(StoragePlanTest, WithoutAFormThatIsEnoughTheNearestIsNamed) {
  const auto plan = plan_storage(forms(), {.images_per_second = 7000});
  EXPECT_EQ(plan.best, -1);
  EXPECT_EQ(plan.nearest, 2);
  EXPECT_EQ(plan.nodes_needed, 4);
}

}  // namespace
}  // namespace penstock
