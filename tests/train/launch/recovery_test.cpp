// Recovery: a time in the environment, and what stands there otherwise.
#include "train/launch/recovery.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace penstock {
namespace {

using std::chrono::hours;

class RecoveryTest : public testing::Test {
 protected:
  ~RecoveryTest() override { unsetenv(kFailureVariable); }
};

TEST_F(RecoveryTest, TheSecondsAreThoseSinceTheFailure) {
  tell_failure(FailureTime::clock::now() - hours(2));
  const auto seconds = seconds_since_failure();
  ASSERT_TRUE(seconds);
  EXPECT_GE(*seconds, 7200);
  EXPECT_LT(*seconds, 7200 + 600);
}

TEST_F(RecoveryTest, AProcessThatWasStartedForNoFailureHasNone) { EXPECT_FALSE(seconds_since_failure()); }

TEST_F(RecoveryTest, AClockThatIsBehindGivesNoNumber) {
  tell_failure(FailureTime::clock::now() + hours(1));
  EXPECT_FALSE(seconds_since_failure());
}

TEST_F(RecoveryTest, ATextThatIsNoTimeGivesNoNumber) {
  for (const char* text : {"", "yesterday", "17.5", "-1e308", "0x1p30", "nan"}) {
    setenv(kFailureVariable, text, 1);
    EXPECT_FALSE(seconds_since_failure()) << text;
  }
}

}  // namespace
}  // namespace penstock
