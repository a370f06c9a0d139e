// The GPU's use, from a library that stands for NVML: what is read, what the records get, and what fails in one line.
#include "train/measure/gpu_monitor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/testing.h"
#include "train/measure/nvml.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

std::string fake_nvml() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/libfake_nvml.so").string();
}

/// Sets a variable of the environment as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(NvmlTest, SaysHowBusyTheGpuIsAndHowFull) {
  const Nvml nvml(fake_nvml(), "");
  EXPECT_EQ(nvml.read()->busy_percent, 10);
  const auto second = nvml.read();
  EXPECT_EQ(second->busy_percent, 20);
  EXPECT_EQ(second->memory_busy_percent, 2);
  EXPECT_EQ(second->memory_bytes, 2 * kGib);
  EXPECT_EQ(second->memory_total_bytes, 8 * kGib);
}

TEST(NvmlTest, FindsAGpuByItsAddress) {
  EXPECT_TRUE(Nvml(fake_nvml(), "0000:3B:00.0").read());
  EXPECT_NE(message_of(ErrorKind::kDevice, [] { Nvml(fake_nvml(), "0000:00:00.0"); })
                .find("nvmlDeviceGetHandleByPciBusId_v2 returned 6"),
            std::string::npos);
}

TEST(NvmlTest, WhatIsMissingIsNamed) {
  const auto message = [](const std::string& library) {
    return message_of(ErrorKind::kDevice, [&] { Nvml(library, ""); });
  };
  EXPECT_NE(message("/no/libnvidia-ml.so.1").find("/no/libnvidia-ml.so.1: "), std::string::npos);
  EXPECT_NE(message("libc.so.6").find("libc.so.6: has no nvmlInit_v2"), std::string::npos);
  const Variable broken("PENSTOCK_TEST_NVML", "init");
  EXPECT_NE(message(fake_nvml()).find("nvmlInit_v2 returned 9; expected a driver"), std::string::npos);
}

TEST(NvmlTest, AGpuThatDoesNotAnswerGivesNoSample) {
  const Nvml nvml(fake_nvml(), "");
  const Variable broken("PENSTOCK_TEST_NVML", "read");
  EXPECT_FALSE(nvml.read());
}

/// The records that `use` has filled until there are `count` samples in them.
std::vector<Metrics> records_with(GpuUse& use, size_t count, Metrics::Kind kind = Metrics::Kind::kStep) {
  std::vector<Metrics> records;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (size_t found = 0; found < count && std::chrono::steady_clock::now() < deadline; std::this_thread::yield()) {
    Metrics metrics{.kind = kind};
    use.put(metrics);
    found += metrics.gpu_samples.size();
    if (!metrics.gpu_samples.empty()) records.push_back(std::move(metrics));
  }
  return records;
}

std::vector<GpuSample> samples_of(const std::vector<Metrics>& records) {
  std::vector<GpuSample> samples;
  for (const auto& record : records)
    samples.insert(samples.end(), record.gpu_samples.begin(), record.gpu_samples.end());
  return samples;
}

TEST(GpuUseTest, EverySampleIsInOneRecord) {
  GpuUse use(Nvml(fake_nvml(), ""), std::chrono::milliseconds(1));
  const auto samples = samples_of(records_with(use, 25));
  ASSERT_GE(samples.size(), 25U);
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].busy_percent, static_cast<double>(i % 10 + 1) * 10) << i;
    EXPECT_GT(samples[i].seconds, i > 0 ? samples[i - 1].seconds : -1);
  }
}

TEST(GpuUseTest, ARecordHasTheMeanSinceTheLastOneOfItsKind) {
  GpuUse use(Nvml(fake_nvml(), ""), std::chrono::milliseconds(1));
  const auto steps = samples_of(records_with(use, 10));
  Metrics epoch{.kind = Metrics::Kind::kEpoch};
  use.put(epoch);
  double sum = 0;
  auto all = steps;
  all.insert(all.end(), epoch.gpu_samples.begin(), epoch.gpu_samples.end());
  for (const auto& sample : all) sum += sample.busy_percent;
  ASSERT_TRUE(epoch.gpu_busy_percent);
  EXPECT_DOUBLE_EQ(*epoch.gpu_busy_percent, sum / static_cast<double>(all.size()));
  EXPECT_EQ(epoch.gpu_memory_bytes, 7 * kGib);
}

TEST(GpuUseTest, ARunOnTheCpuIsWatchedOnlyIfSomebodyAsks) {
  std::vector<std::string> said;
  const auto log = [&](const std::string& line) { said.push_back(line); };
  EXPECT_EQ(watch_gpu(c10::Device(c10::kCPU), log), nullptr);
  EXPECT_TRUE(said.empty());
  {
    const Variable asked("PENSTOCK_NVML", fake_nvml());
    EXPECT_NE(watch_gpu(c10::Device(c10::kCPU), log), nullptr);
    EXPECT_TRUE(said.empty());
  }
  const Variable asked("PENSTOCK_NVML", "/no/libnvidia-ml.so.1");
  EXPECT_EQ(watch_gpu(c10::Device(c10::kCPU), log), nullptr);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(said[0].starts_with("PENSTOCK_NVML: /no/libnvidia-ml.so.1: ")) << said[0];
}

TEST(GpuUseTest, AGpuWithoutAnAddressIsNotTakenForGpu0) {
  std::vector<std::string> said;
  const Variable asked("PENSTOCK_NVML", fake_nvml());
  EXPECT_EQ(watch_gpu(c10::Device(c10::kCUDA, 99), [&](const std::string& line) { said.push_back(line); }), nullptr);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(
      said[0],
      "PENSTOCK_NVML: the address of cuda:99 on the PCI bus is not known; expected one; the use of the GPU is not "
      "recorded");
}

std::vector<std::string> gpu_csv(const std::filesystem::path& folder) {
  std::ifstream file(folder / "gpu.csv");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(GpuSinkTest, WritesARowPerSampleAndARunThatGoesOnDropsLaterOnes) {
  const TemporaryFolder folder("gpu-csv");
  const auto write = [&](int64_t step, int64_t resumed_step, std::vector<GpuSample> samples) {
    const auto sink =
        SinkRegistry::make(parse_spec("sink", "gpu"), SinkContext{folder.path(), resumed_step, std::cout});
    Metrics metrics{.step = step};
    metrics.gpu_samples = std::move(samples);
    sink->write(metrics);
  };
  write(10, -1, {});
  EXPECT_TRUE(gpu_csv(folder.path()).empty());
  write(10, -1, {{0.5, 60, 20, kGib, 8 * kGib}, {0.6, 70, 20, kGib, 8 * kGib}});
  EXPECT_EQ(gpu_csv(folder.path()).size(), 3U);
  EXPECT_EQ(gpu_csv(folder.path())[1], "10,0.5,60,20,1073741824,8589934592");
  write(20, 10, {{0.1, 80, 20, kGib, 8 * kGib}});
  write(15, 10, {{0.2, 90, 20, kGib, 8 * kGib}});
  const auto lines = gpu_csv(folder.path());
  ASSERT_EQ(lines.size(), 4U);  // the row of step 20 is after the step that the run goes on from
  EXPECT_EQ(lines[3], "15,0.2,90,20,1073741824,8589934592");
  write(20, 10, {});
  EXPECT_EQ(gpu_csv(folder.path()).size(), 3U) << "rows after step 10 are left, although no sample has come";
}

}  // namespace
}  // namespace penstock
