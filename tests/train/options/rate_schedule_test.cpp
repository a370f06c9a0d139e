// Learning-rate schedules with keys: their values in single steps, and what is refused.
#include "train/options/rate_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

TEST(RateScheduleTest, TriangularIsTwoStraightLines) {
  const RateSchedule schedule("triangular(start=0.2,peak=0.25,end=0.1)");
  for (const auto& [step, factor] : {std::pair{0, 0.2},
                                     {5, 0.2 + 0.8 * 5 / 25},
                                     {24, 0.2 + 0.8 * 24 / 25},
                                     {25, 1.0},
                                     {26, 1 - 0.9 / 75},
                                     {99, 1 - 0.9 * 74 / 75}})
    EXPECT_DOUBLE_EQ(schedule.factor(step, 100), factor) << step;
  EXPECT_DOUBLE_EQ(RateSchedule("triangular").factor(30, 100), 0.6);
  EXPECT_DOUBLE_EQ(RateSchedule("triangular(peak=0)").factor(0, 100), 1);
  EXPECT_DOUBLE_EQ(RateSchedule("triangular(peak=0)").factor(75, 100), 0.25);
  EXPECT_DOUBLE_EQ(RateSchedule("triangular(peak=1)").factor(99, 100), 0.99);
  EXPECT_DOUBLE_EQ(RateSchedule("triangular(peak=0.23)").factor(2, 9), 1);  // it turns at step floor(2.07)
}

TEST(RateScheduleTest, TriangularStaysAtItsEndForTheRest) {
  const RateSchedule schedule("triangular(peak=0.2,end=0.1,rest=0.2)");
  for (const auto& [step, factor] :
       {std::pair{97, 0.5}, {194, 1.0}, {485, 0.55}, {775, 1 - 0.9 * 581 / 582}, {776, 0.1}, {969, 0.1}})
    EXPECT_DOUBLE_EQ(schedule.factor(step, 970), factor) << step;
  const RateSchedule without_slope("triangular(peak=0.5,end=0.3,rest=0.5)");
  EXPECT_DOUBLE_EQ(without_slope.factor(4, 10), 0.8);
  EXPECT_DOUBLE_EQ(without_slope.factor(5, 10), 0.3);
  EXPECT_DOUBLE_EQ(RateSchedule("triangular(peak=0.8,rest=0.2)").factor(9, 10), 0);
}

/// The factors of torch.optim.lr_scheduler.OneCycleLR(total_steps=20), torch 2.11.
TEST(RateScheduleTest, OneCycleIsThatOfTorch) {
  const auto expect = [](const RateSchedule& schedule, const std::vector<std::pair<int, double>>& factors) {
    for (const auto& [step, factor] : factors) EXPECT_NEAR(schedule.factor(step, 20), factor, 1e-9) << step;
  };
  expect(RateSchedule("onecycle"), {{0, 0.04},
                                    {1, 0.1316718427},
                                    {4, 0.9083281573},
                                    {5, 1},
                                    {6, 0.9874640062},
                                    {12, 0.500002},
                                    {18, 0.01253999376},
                                    {19, 4e-06}});
  expect(RateSchedule("onecycle(peak=0.25,divide=10,final=100)"),
         {{0, 0.1}, {2, 0.55}, {4, 1}, {5, 0.9890847266}, {14, 0.25075}, {19, 0.001}});
  EXPECT_DOUBLE_EQ(RateSchedule("onecycle(peak=0)").factor(0, 20), 1);
  EXPECT_DOUBLE_EQ(RateSchedule("onecycle").factor(0, 1), 1);
}

/// test_rates.py holds whole runs against torch; these are single steps, for whom the formula is the reference.
TEST(RateScheduleTest, AWarmUpComesBeforeTheSteps) {
  constexpr int kEpochSteps = 10, kSteps = 100;
  const auto factor = [](const char* text, int step) { return RateSchedule(text).factor(step, kSteps, kEpochSteps); };
  EXPECT_DOUBLE_EQ(factor("constant(warmup=2)", 0), 0.01);
  EXPECT_DOUBLE_EQ(factor("constant(warmup=2)", 10), 0.01 + 0.99 / 2);
  EXPECT_DOUBLE_EQ(factor("constant(warmup=2)", 20), 1);
  EXPECT_DOUBLE_EQ(factor("constant(warmup=2,per=epoch)", 19), 0.01 + 0.99 / 2);
  EXPECT_DOUBLE_EQ(factor("constant(warmup=0.5,warmup-kind=constant,warmup-start=0.25)", 4), 0.25);
  EXPECT_DOUBLE_EQ(factor("constant(warmup=0.5,warmup-kind=constant,warmup-start=0.25)", 5), 1);
  EXPECT_DOUBLE_EQ(factor("cosine(warmup=2)", 60), 0.5);  // in the middle of the 80 steps after the warm-up
  EXPECT_DOUBLE_EQ(factor("cosine(warmup=2,warmup-inside=true)", 50), 0.5);
  EXPECT_DOUBLE_EQ(factor("cosine(floor=0.2)", 50), 0.6);
  EXPECT_DOUBLE_EQ(factor("polynomial(power=2,floor=0.1)", 50), 0.1 + 0.9 / 4);
  EXPECT_DOUBLE_EQ(factor("step(every=3,warmup=1)", 39), 1);
  EXPECT_DOUBLE_EQ(factor("step(every=3,warmup=1)", 40), 0.1);
  EXPECT_DOUBLE_EQ(factor("step(every=3,gamma=0.5,warmup=1)", 70), 0.25);
}

/// The factors of torch.optim.lr_scheduler.ReduceLROnPlateau after each value, torch 2.11; test_rates.py holds whole
/// runs against it.
TEST(RateScheduleTest, APlateauIsThatOfTorch) {
  const double kNan = NAN;
  const auto factors = [](const char* text, bool smaller_is_better, const std::vector<double>& values) {
    const RateSchedule schedule(text);
    PlateauState state;
    std::vector<double> all;
    for (const double value : values) {
      const double before = state.factor;
      const bool falls = schedule.plateau()->after_evaluation(value, smaller_is_better, state);
      EXPECT_EQ(falls, state.factor < before);
      all.push_back(state.factor);
    }
    return all;
  };
  using testing::ElementsAre;
  EXPECT_THAT(factors("plateau(factor=0.5,patience=1)", true, {3, 2, 2, 2, 1.9999, 1.9, 1.9, 1.9, 1.9}),
              ElementsAre(1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25));
  EXPECT_THAT(factors("plateau(factor=0.5,patience=0,cooldown=2,floor=0.2)", true, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}),
              ElementsAre(1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2));
  EXPECT_THAT(
      factors("plateau(factor=0.5,patience=0,threshold=0.1,threshold-mode=abs)", false, {0.5, 0.59, 0.61, kNan}),
      ElementsAre(1, 0.5, 0.5, 0.25));
  EXPECT_THAT(factors("plateau(factor=0.5,patience=0,threshold=0.1)", false, {0.5, 0.54, 0.56}),
              ElementsAre(1, 0.5, 0.5));
}

TEST(RateScheduleTest, APlateauTakesNoEvaluationInItsWarmUp) {
  const RateSchedule schedule("plateau(warmup=2,on=score)"), inside("plateau(warmup=2,warmup-inside=true)");
  EXPECT_TRUE(schedule.plateau()->is_on_score() && !inside.plateau()->is_on_score());
  EXPECT_DOUBLE_EQ(schedule.factor(10, 100, 10), 0.01 + 0.99 / 2);
  EXPECT_DOUBLE_EQ(schedule.factor(99, 100, 10), 1);
  EXPECT_FALSE(schedule.counts_epoch(1));
  EXPECT_TRUE(schedule.counts_epoch(2) && inside.counts_epoch(0));
  EXPECT_EQ(RateSchedule("constant").plateau(), nullptr);
}

TEST(RateScheduleTest, ValuesOutOfRangeAreRefused) {
  const auto refusal = [](const std::string& text) {
    return message_of(ErrorKind::kConfig, [&] { RateSchedule{text}; });
  };
  EXPECT_EQ(refusal("triangular(peak=1.5)"),
            "--schedule triangular: peak is 1.5; expected a share of the steps, 0 to 1");
  EXPECT_EQ(refusal("triangular(peak=0.7,rest=0.5)"),
            "--schedule triangular: rest is 0.5; expected a share of the steps, 0 to 1 - peak");
  EXPECT_EQ(refusal("triangular(start=-1)"), "--schedule triangular: start is -1; expected a factor, 0 to 1e12");
  EXPECT_EQ(refusal("onecycle(divide=0)"), "--schedule onecycle: divide is 0; expected a divisor, 1 to 1e12");
  EXPECT_EQ(refusal("cosine(per=batch)"), "schedule cosine: per is \"batch\"; expected step or epoch");
  EXPECT_EQ(refusal("plateau(factor=1)"),
            "--schedule plateau: factor is 1; expected a factor, 0 or more and less than 1");
  EXPECT_EQ(refusal("plateau(patience=-1)"), "--schedule plateau: patience is -1; expected epochs, 0 or more");
  EXPECT_EQ(refusal("plateau(threshold=-1)"), "--schedule plateau: threshold is -1; expected 0 or more");
  EXPECT_EQ(refusal("plateau(threshold-mode=a)"), "schedule plateau: threshold-mode is \"a\"; expected rel or abs");
  EXPECT_NE(refusal("plateau(min-lr=1)").find("it takes factor, patience, threshold"), std::string::npos);
  EXPECT_EQ(refusal("cosine(floor=2)"), "--schedule cosine: floor is 2; expected a factor, 0 to 1");
  EXPECT_EQ(refusal("step(warmup=-1)"), "--schedule step: warmup is -1; expected epochs, 0 or more");
  EXPECT_NE(refusal("onecycle(warmup=1)").find("unknown key \"warmup\""), std::string::npos);
  EXPECT_NE(refusal("cosine(end=1)").find("unknown key \"end\""), std::string::npos);
  EXPECT_NE(refusal("triangulr").find("did you mean \"triangular\""), std::string::npos);
}

}  // namespace
}  // namespace penstock
