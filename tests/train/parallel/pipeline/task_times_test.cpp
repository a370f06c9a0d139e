// Task times: literally, on cases that one can work out on paper.
#include "train/parallel/pipeline/task_times.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace penstock::detail {
namespace {

using testing::DoubleNear, testing::Pointwise;

std::vector<double> ends(const std::vector<Task>& tasks, double cores) {
  std::vector<double> list;
  for (const auto& time : run_tasks(tasks, cores)) list.push_back(time.end);
  return list;
}

void expect_ends(const std::vector<Task>& tasks, double cores, const std::vector<double>& expected) {
  EXPECT_THAT(ends(tasks, cores), Pointwise(DoubleNear(1e-6), expected));
}

Work seconds(double alone, double beside = 0) { return {alone, beside > 0 ? beside : alone, alone}; }

TEST(TaskTimesTest, TasksOfAStreamRunOneAfterTheOther) {
  expect_ends({{.stream = 0, .work = seconds(2)}, {.stream = 0, .work = seconds(1)}}, 2, {2, 3});
}

TEST(TaskTimesTest, ATaskBeginsWhenWhatItNeedsIsThere) {
  expect_ends({{.stream = 0, .work = seconds(2)}, {.stream = 1, .work = seconds(1), .after = {0}}}, 2, {2, 3});
  // What is needed may come later in the list.
  expect_ends({{.stream = 1, .work = seconds(1), .after = {1}}, {.stream = 0, .work = seconds(2)}}, 2, {3, 2});
}

TEST(TaskTimesTest, LatencyDelaysWhoNeedsATaskAndNotItsStream) {
  expect_ends({{.stream = 0, .work = seconds(1), .latency = 5},
               {.stream = 0, .work = seconds(1)},
               {.stream = 1, .work = seconds(1), .after = {0}}},
              2, {1, 2, 7});
}

TEST(TaskTimesTest, CostsThatAreTooFarApartToBeAddedHaveAnEnd) {
  const std::vector<Task> tasks{{.stream = 0, .work = seconds(1e12)}, {.stream = 0, .work = seconds(1e-9)}};
  EXPECT_THROW(run_tasks(tasks, 1), Error);
}

TEST(TaskTimesTest, TasksShareTheCoresWhereThereAreTooFew) {
  // Two halves of a core for 2 s, then the longer one has a core.
  expect_ends({{.stream = 0, .work = seconds(1)}, {.stream = 1, .work = seconds(3)}}, 1, {2, 4});
}

TEST(TaskTimesTest, WhatWaitsTakesNoCore) {
  expect_ends({{.stream = 0, .work = seconds(1)}, {.stream = 1, .work = seconds(3), .cores = 0}}, 1, {1, 3});
}

TEST(TaskTimesTest, OtherCoresThatAreBusySlowATaskDown) {
  // 2 s beside the other one, of which 2 s would be 4 s; then the second half alone.
  expect_ends({{.stream = 0, .work = seconds(1, 2)}, {.stream = 1, .work = seconds(2, 4)}}, 2, {2, 3});
  // One of three other cores is busy: a third of the way from 3 s to 6 s, as long as it is.
  expect_ends({{.stream = 0, .work = seconds(3, 6)}, {.stream = 1, .work = seconds(4)}}, 4, {4, 4});
}

TEST(TaskTimesTest, TasksWithoutWorkTakeNoTime) {
  expect_ends({{.stream = 0, .work = seconds(1)}, {.stream = 1, .after = {0}}, {.stream = 0, .work = seconds(1)}}, 1,
              {1, 1, 2});
}

TEST(TaskTimesTest, AfterAWaitTheFirstTaskThatWorksIsCold) {
  const Work work{.alone = 1, .beside = 1, .in_turn = 1.5};
  expect_ends({{.stream = 0, .work = seconds(1)},
               {.stream = 1, .after = {0}},
               {.stream = 1, .work = work},
               {.stream = 1, .work = work}},
              2, {1, 1, 2.5, 3.5});
}

TEST(TaskTimesTest, AnIdleCoreTakesATaskThatWaitsForAnotherOne) {
  // Three tasks on two cores: two of them have half a core each until the third one ends.
  expect_ends({{.stream = 0, .work = seconds(2)}, {.stream = 1, .work = seconds(1)}, {.stream = 2, .work = seconds(2)}},
              2, {2.5, 1, 2.5});
}

TEST(TaskTimesTest, TasksThatWaitForEachOtherAreRefused) {
  try {
    run_tasks({{.stream = 0, .after = {1}}, {.stream = 1, .after = {0}}}, 1);
    FAIL() << "they ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
    EXPECT_STREQ(error.what(), "plan: 2 tasks wait for ever");
  }
}

}  // namespace
}  // namespace penstock::detail
