// Core queues: who runs where, on cases that one can work out on paper.
#include "train/parallel/pipeline/core_queues.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::detail {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(CoreQueuesTest, NewTasksGoWhereTheLeastIsToDo) {
  CoreQueues queues(2);
  for (size_t task = 0; task < 4; ++task) {
    const size_t core = queues.core_for_new();
    EXPECT_EQ(core, task % 2);
    queues.begin(task, 1, core, /*now=*/0);
  }
  for (size_t task = 0; task < 4; ++task) EXPECT_DOUBLE_EQ(queues.share(task), 0.5);
}

TEST(CoreQueuesTest, ATaskOfSeveralThreadsIsOnAllCores) {
  CoreQueues queues(2);
  queues.begin(0, /*load=*/2, 0, 0);
  EXPECT_DOUBLE_EQ(queues.share(0), 1);
  queues.begin(1, 1, 1, 0);
  EXPECT_DOUBLE_EQ(queues.share(0), 0.5);  // its threads wait for the slowest of them
  queues.end(1, 1);
  EXPECT_DOUBLE_EQ(queues.share(0), 1);
  EXPECT_DOUBLE_EQ(queues.share(7), 1);  // who is not there waits, and takes no core
}

TEST(CoreQueuesTest, WhoIsWokenPrefersItsCoreAndThenThatOfTheWaker) {
  CoreQueues queues(3);
  EXPECT_EQ(queues.core_for_woken(/*last=*/1, /*waker=*/2), 1U);
  queues.begin(0, 1, 1, 0);
  EXPECT_EQ(queues.core_for_woken(1, 2), 2U);
  queues.begin(1, 1, 2, 0);
  EXPECT_EQ(queues.core_for_woken(1, 2), 0U);  // the machine has been idle until now
  queues.begin(2, 1, 0, 0);
  queues.end(2, /*now=*/1);  // after a second in which all cores were busy
  EXPECT_EQ(queues.core_for_woken(1, 2), 1U);
  queues.begin(3, 1, 1, 1);
  EXPECT_EQ(queues.core_for_woken(1, 2), 2U);  // has less to do
}

TEST(CoreQueuesTest, ACoreThatIsIdleForLongTakesAThreadAtOnce) {
  CoreQueues queues(2);
  queues.begin(0, 1, 0, 0);
  queues.begin(1, 1, 0, 0);
  EXPECT_DOUBLE_EQ(queues.next_pull(), 0);
  queues.pull(0);
  EXPECT_DOUBLE_EQ(queues.share(0), 1);
  EXPECT_DOUBLE_EQ(queues.share(1), 1);
  EXPECT_EQ(queues.next_pull(), kNever);
}

TEST(CoreQueuesTest, ACoreThatIsIdleForMomentsTakesNoneBeforeATick) {
  CoreQueues queues(2);
  double now = 0;
  for (size_t i = 0; i < 40; ++i) {  // 0.1 ms of work on core 1, and 0.1 ms of nothing
    queues.begin(i, 1, 1, now);
    queues.end(i, now + 1e-4);
    now += 2e-4;
  }
  const double idle_since = now - 1e-4;
  queues.begin(100, 1, 0, now);
  queues.begin(101, 1, 0, now);
  EXPECT_NEAR(queues.next_pull(), idle_since + 4e-3, 1e-9);
  queues.pull(now);
  EXPECT_DOUBLE_EQ(queues.share(101), 0.5);
  queues.pull(idle_since + 5e-3);
  EXPECT_DOUBLE_EQ(queues.share(101), 1);
}

TEST(CoreQueuesTest, ATickEvensOutWhatDiffersByTwo) {
  CoreQueues queues(2);
  queues.begin(0, 1, 1, 0);
  for (size_t task = 1; task < 4; ++task) queues.begin(task, 1, 0, 0);
  EXPECT_NEAR(queues.next_pull(), 4e-3, 1e-9);
  queues.pull(4e-3);
  EXPECT_DOUBLE_EQ(queues.share(0), 0.5);
  EXPECT_EQ(queues.next_pull(), kNever);
}

}  // namespace
}  // namespace penstock::detail
