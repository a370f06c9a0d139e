// Machine: quotas in the form in which versions 1 and 2 of control groups write them.
#include "core/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/testing.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class QuotaTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }
  std::optional<double> quota(const std::string& groups) { return quota_cores(groups, folder_.path()); }

  TemporaryFolder folder_{"cgroup"};
};

TEST_F(QuotaTest, WithoutAnyThereIsNoLimit) {
  EXPECT_FALSE(quota(""));
  EXPECT_FALSE(quota("0::/a/b\n"));
  EXPECT_FALSE(quota("nonsense\n1:\n"));
  write("a/b/cpu.max", "max 100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(quota("0::/a/b\n4:cpu:/\n"));
}

TEST_F(QuotaTest, TheLeastOfAllGroupsAboveCounts) {
  write("a/b/cpu.max", "max 100000\n");
  write("a/cpu.max", "150000 100000\n");
  write("cpu.max", "400000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1.5);
  EXPECT_EQ(quota("0::/\n"), 4);
  EXPECT_EQ(quota("0::/of/another/name/space\n"), 4);  // a container sees its own group at the mount point
  EXPECT_EQ(quota("0::/../elsewhere\n"), 4);
}

TEST_F(QuotaTest, VersionOneIsReadFromTheControllersFolder) {
  write("cpu,cpuacct/docker/1f/cpu.cfs_quota_us", "50000\n");
  write("cpu,cpuacct/docker/1f/cpu.cfs_period_us", "100000\n");
  write("memory/docker/1f/cpu.cfs_quota_us", "1\n");
  EXPECT_EQ(quota("5:memory:/docker/1f\n4:cpu,cpuacct:/docker/1f\n0::/docker/1f\n"), 0.5);
  write("cpu/2f/cpu.cfs_quota_us", "300000\n");
  write("cpu/2f/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("4:cpu,cpuacct:/2f\n"), 3);  // some systems link or mount the folder as cpu
}

TEST_F(QuotaTest, TheLeastNumberOfProcessesCountsToo) {
  EXPECT_FALSE(pids_limit("0::/a/b\n", folder_.path()));
  write("a/b/pids.max", "max\n");
  write("a/pids.max", "64\n");
  write("pids.max", "4000\n");
  EXPECT_EQ(pids_limit("0::/a/b\n", folder_.path()), 64);
  write("pids/docker/1f/pids.max", "12\n");
  EXPECT_EQ(pids_limit("7:pids:/docker/1f\n", folder_.path()), 12);
}

TEST_F(QuotaTest, TheLeastMemoryCountsToo) {
  EXPECT_FALSE(memory_limit("0::/a/b\n", folder_.path()));
  write("a/b/memory.max", "max\n");
  EXPECT_FALSE(memory_limit("0::/a/b\n", folder_.path()));
  write("a/memory.max", "1073741824\n");
  EXPECT_EQ(memory_limit("0::/a/b\n", folder_.path()), 1073741824U);
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");  // version 1 without a limit
  EXPECT_FALSE(memory_limit("7:memory:/docker/1f\n", folder_.path()));
  write("memory/docker/1f/memory.limit_in_bytes", "268435456\n");
  EXPECT_EQ(memory_limit("7:memory:/docker/1f\n", folder_.path()), 268435456U);
}

TEST(MemoryTest, SomeIsAvailableHere) { EXPECT_GT(available_memory(), uint64_t{1} << 20); }

TEST(BusyCoresTest, AreThoseOfThisProcessWhateverKeepsThemBusy) {
  // user nice system idle iowait irq softirq steal guest guest_nice
  const std::string stat =
      "cpu  600 0 0 0 0 0 0 0 0 0\n"
      "cpu0 100 20 3 5000 70 4 5 6 0 0\n"
      "cpu1 200 0 0 5000 0 0 0 0 0 0\n"
      "cpu12 300 0 0 5000 0 0 0 0 0 0\n"
      "intr 4711\n";
  const auto busy_ms = [&](std::vector<int> cores) {
    return busy_cores_ms(stat, 100, [&](int core) { return std::count(cores.begin(), cores.end(), core) > 0; });
  };
  EXPECT_EQ(busy_ms({0}), 1380);
  EXPECT_EQ(busy_ms({0, 12}), 4380);
  EXPECT_EQ(busy_ms({2}), 0);
  EXPECT_EQ(busy_cores_ms("nonsense\ncpu\ncpu0 1 2\n", 100, [](int) { return true; }), 0);
}

TEST(BusyCoresTest, TheKernelTellsThemHere) {
  const double before = busy_cores_ms();
  EXPECT_GT(before, 0);
  EXPECT_GE(busy_cores_ms(), before);
}

TEST(BusyCoresTest, OtherProgramsAreSaidInAClause) {
  EXPECT_EQ(others_text(0.94, 2), ", while other programs had 0.9 of 2 cores");
  EXPECT_EQ(others_text(0.5, 1), ", while other programs had 0.5 of 1 core");
}

TEST(CoresTest, ThereIsAtLeastOne) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), bound_cores());
}

TEST(DescriptorsTest, AnOpenFileCounts) {
  const Descriptors before = descriptors();
  const std::ifstream file("/dev/null");
  EXPECT_EQ(descriptors().open, before.open + 1);
  EXPECT_GT(before.limit, before.open);
}

}  // namespace
}  // namespace penstock
