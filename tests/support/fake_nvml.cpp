// fake_nvml: stands for libnvidia-ml.so.1 in tests. Its GPU is 10, 20, 30, ... percent busy, which starts again after
// 100, and holds a GiB of 8 per call so far, at most 7.
//
// PENSTOCK_TEST_NVML=init|device|read makes that call fail, as without a driver, a GPU or an answer.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::atomic<int> calls{0};
int device = 0;

bool is_broken(const char* call) {
  const char* broken = std::getenv("PENSTOCK_TEST_NVML");
  return broken != nullptr && std::strcmp(broken, call) == 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  calls = 0;
  return is_broken("init") ? 9 : 0;  // NVML_ERROR_DRIVER_NOT_LOADED
}
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  *handle = &device;
  return index != 0 || is_broken("device") ? 6 : 0;  // NVML_ERROR_NOT_FOUND
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) {
  *handle = &device;
  return std::string(bus) == "0000:3B:00.0" ? 0 : 6;
}
int nvmlDeviceGetUtilizationRates(void* handle, unsigned* percent) {
  percent[0] = static_cast<unsigned>(calls++ % 10 + 1) * 10;
  percent[1] = percent[0] / 10;
  return handle != &device || is_broken("read") ? 999 : 0;
}
int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long* bytes) {
  constexpr unsigned long long kGib = 1ULL << 30;
  const auto used = static_cast<unsigned long long>(calls < 7 ? calls.load() : 7);
  bytes[0] = 8 * kGib;
  bytes[1] = (8 - used) * kGib;
  bytes[2] = used * kGib;
  return handle != &device ? 999 : 0;
}

}  // extern "C"
