// Activity: what the launcher reads about ranks that were told to stop.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/testing.h"
#include "train/launch/activity.h"

namespace penstock::detail {
namespace {

TEST(ActivityTest, StateAndProcessorTimeAreReadBehindAnyName) {
  const auto activity = parse_activity("12 (a) b ) T 1 12 12 0 -1 4194304 100 0 0 0 70 30 0 0 20 0 1 0 5 6 7");
  EXPECT_EQ(activity.state, 'T');
  EXPECT_EQ(activity.cpu_ticks, 100);
  EXPECT_EQ(parse_activity("").state, '?');
  EXPECT_EQ(activity_of(getpid()).state, 'R');
}

/// Whether anything comes of process 12, whose main thread is in state `first` and its worker in state `second`.
bool is_at_work_with(char first, char second) {
  const TemporaryFolder proc("proc");
  const auto write = [&](const std::string& file, char state) {
    std::filesystem::create_directories((proc.path() / file).parent_path());
    std::ofstream(proc.path() / file) << "12 (train) " << state << " 1 12 12 0 -1 4194304 100 0 0 0 70 30 0 0";
  };
  write("12/stat", first);
  write("12/task/12/stat", first);
  write("12/task/13/stat", second);
  const Activity activity = activity_of(12, proc.path());
  return is_at_work(activity, activity);
}

TEST(ActivityTest, AThreadThatWaitsForADiskIsAtWork) {
  EXPECT_FALSE(is_at_work_with('S', 'S'));
  EXPECT_TRUE(is_at_work_with('D', 'S'));
  EXPECT_TRUE(is_at_work_with('S', 'D'));
  EXPECT_FALSE(is_at_work_with('T', 'D'));
}

TEST(ActivityTest, OnlyTheProcessorAndTheDiskAreWork) {
  const Activity before{'S', 100};
  EXPECT_FALSE(is_at_work(before, {'S', 101}));
  EXPECT_TRUE(is_at_work(before, {'S', 200}));
  EXPECT_TRUE(is_at_work(before, {'D', 100}));
  EXPECT_FALSE(is_at_work(before, {'T', 200}));
}

}  // namespace
}  // namespace penstock::detail
