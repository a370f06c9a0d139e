// StepPlan: what the modes make of their keys, and what follows from a plan.
#include "train/parallel/strategy/step_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/train/strategy_batches.h"
#include "train/parallel/strategy/stage_cuts.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

StepPlan plan(const std::string& mode, int ranks, int micro_shards = 0) {
  return plan_of(parse_spec("mode", mode), {.ranks = ranks, .micro_shards = micro_shards, .gpus = 0});
}

std::string sync(const std::string& mode, int ranks, int micro_shards = 0) {
  return name_of(plan(mode, ranks, micro_shards).sync());
}

TEST(StepPlanTest, GradientsComeTogetherAsKeysSay) {
  EXPECT_EQ(sync("single", 1), "none");
  EXPECT_EQ(sync("dp", 1), "replicas");
  EXPECT_EQ(sync("ddp", 1), "buckets");
  EXPECT_EQ(sync("ddp(compress=fp16)", 2), "compressed");
  EXPECT_EQ(sync("ddp(local-steps=2)", 2), "local");
  EXPECT_EQ(sync("zero", 2), "buckets");
  EXPECT_EQ(sync("zero(stage=2)", 2), "scatter");
  EXPECT_EQ(sync("zero(stage=3)", 2), "units");
  EXPECT_EQ(sync("pipeline", 2), "none");
  EXPECT_EQ(sync("pipeline(data=2)", 4), "buckets");
  EXPECT_EQ(sync("pipeline(data=2,zero=2)", 4), "scatter");
  for (const char* mode : {"ddp", "zero", "pipeline", "mp"}) EXPECT_EQ(sync(mode, 2, 4), "tree") << mode;
  EXPECT_EQ(sync("single", 1, 4), "tree");
  EXPECT_EQ(sync("dp", 1, 4), "replica-tree");
  EXPECT_EQ(sync("zero(stage=2)", 2, 4), "tree-scatter");
  EXPECT_EQ(sync("zero(stage=3)", 2, 4), "units");
}

TEST(StepPlanTest, ItIsAnObjectOfJsonWithWhatAModeHasChosen) {
  const auto json = nlohmann::json::parse(to_json(plan("ddp(local-steps=4,outer=nesterov)", 2)));
  EXPECT_EQ(json["mode"], "ddp");
  EXPECT_EQ(json["data"], 2);
  EXPECT_EQ(json["local"], nlohmann::json::parse(R"({"steps": 4, "outer": "nesterov", "rate": 0.7, "momentum": 0.9})"));
  auto pipeline = plan("pipeline(cut=fc1,schedule=gpipe,recompute=always)", 2);
  pipeline = detail::fitted(pipeline, detail::facts_of(*make_small_lenet()));
  const auto stages = nlohmann::json::parse(to_json(pipeline));
  EXPECT_EQ(stages["schedule"], "gpipe");
  EXPECT_EQ(stages["recompute"], "always");
  EXPECT_EQ(stages["stages"], nlohmann::json::parse("[[0, 2], [2, 5]]"));
}

/// Another value of any key is another plan, so that who compares plans compares keys.
TEST(StepPlanTest, PlansOfAllExamplesDifferAlsoAsJson) {
  std::set<std::string> known;
  size_t count = 0;
  for (const auto& [name, entry] : StrategyRegistry::entries()) {
    auto modes = entry.traits.examples;
    modes.push_back(name);
    for (const auto& mode : modes) {
      const int ranks = name == "single" || name == "dp" ? 1 : 4;
      const StepPlan one = plan(mode, ranks);
      EXPECT_TRUE(one.is_complete) << mode;
      EXPECT_EQ(one, plan(mode, ranks)) << mode;
      EXPECT_TRUE(known.insert(to_json(one)).second) << mode;
      ++count;
    }
  }
  EXPECT_GE(count, 30U);
}

TEST(StepPlanTest, APromiseFollowsFromThePlan) {
  EXPECT_TRUE(promise_of(StepPlan()).sees_whole_batches);
  EXPECT_FALSE(promise_of(plan("single(accumulate=2)", 1)).sees_whole_batches);
  EXPECT_FALSE(promise_of(plan("ddp", 2)).sees_whole_batches);
  EXPECT_TRUE(promise_of(plan("zero(sync-bn=true)", 2)).sees_whole_batches);
  EXPECT_TRUE(promise_of(plan("mp", 2)).sees_whole_batches);
  EXPECT_FALSE(promise_of(plan("dp", 1)).sees_whole_batches);
  EXPECT_EQ(promise_of(plan("ddp(compress=fp16)", 4)).compression_error, 4 / 2048.0);
  EXPECT_TRUE(promise_of(plan("ddp(local-steps=1)", 2)).holds_for_many_steps);
  EXPECT_FALSE(promise_of(plan("ddp(local-steps=2)", 2)).holds_for_many_steps);
}

TEST(StepPlanTest, ThePartsOfAModelThatARankHoldsFollowFromThePlan) {
  EXPECT_TRUE(plan("mp", 2).holds_part());
  EXPECT_TRUE(plan("zero(stage=3)", 2).holds_part());
  EXPECT_FALSE(plan("zero(stage=3)", 1).holds_part());
  EXPECT_FALSE(plan("zero(stage=2)", 2).holds_part());
  EXPECT_FALSE(plan("ddp", 2).holds_part());
}

}  // namespace
}  // namespace penstock
