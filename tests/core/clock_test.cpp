// Clock: what the kernel reports about a thread.
#include "core/clock.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace penstock {
namespace {

TEST(StorageUseTest, FaultsAreTheThreadsWhateverItIsCalled) {
  for (const char* name : {"plain", "a) S 1 2 (b"}) {
    prctl(PR_SET_NAME, name);
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    const StorageUse use = storage_use(this_thread());
    EXPECT_GE(use.major_faults, usage.ru_majflt) << name;
    EXPECT_LE(use.major_faults, usage.ru_majflt + 100) << name;  // so that it is not another field
    EXPECT_GE(use.read_bytes, 0) << name;
  }
}

TEST(StorageUseTest, OfAThreadThatIsGoneThereIsNothing) {
  const StorageUse use = storage_use(-1);
  EXPECT_EQ(use.major_faults, 0);
  EXPECT_EQ(use.read_bytes, 0);
}

}  // namespace
}  // namespace penstock
