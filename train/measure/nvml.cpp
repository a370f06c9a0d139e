// Nvml: the six functions that are needed, declared here after nvml.h of CUDA 13. Where NVIDIA changed one of them, the
// new one has a number at the end of its name, so that a driver that has these names has these functions.
#include "train/measure/nvml.h"

#include <dlfcn.h>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace detail {

struct NvmlUtilization {
  unsigned gpu = 0, memory = 0;  // percent of the last sample period, 1/6 s to 1 s
};
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;  // bytes
};
constexpr int kNvmlSuccess = 0;

}  // namespace detail

using detail::kNvmlSuccess, detail::NvmlMemory, detail::NvmlUtilization;

struct Nvml::Library {
  explicit Library(const std::string& name) : name(name), handle(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) throw device_error(concat(name, ": ", dlerror(), "; expected NVIDIA's management library"));
    try {
      find("nvmlInit_v2", init);
      find("nvmlShutdown", shutdown);
      find("nvmlDeviceGetHandleByIndex_v2", by_index);
      find("nvmlDeviceGetHandleByPciBusId_v2", by_bus);
      find("nvmlDeviceGetUtilizationRates", utilization);
      find("nvmlDeviceGetMemoryInfo", memory);
      require(init(), "nvmlInit_v2");
    } catch (...) {
      dlclose(handle);
      throw;
    }
  }
  ~Library() {
    shutdown();
    dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  void find(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle, symbol));
    if (function == nullptr)
      throw device_error(concat(name, ": has no ", symbol, "; expected NVIDIA's management library"));
  }
  void require(int code, const char* call) const {
    if (code != kNvmlSuccess)
      throw device_error(concat(name, ": ", call, " returned ", code, "; expected a driver and a GPU that answer"));
  }

  std::string name;
  void* handle;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_index)(unsigned, void**) = nullptr;
  int (*by_bus)(const char*, void**) = nullptr;
  int (*utilization)(void*, NvmlUtilization*) = nullptr;
  int (*memory)(void*, NvmlMemory*) = nullptr;
};

Nvml::Nvml(const std::string& library, const std::string& pci_bus_id) : library_(std::make_unique<Library>(library)) {
  if (pci_bus_id.empty())
    library_->require(library_->by_index(0, &device_), "nvmlDeviceGetHandleByIndex_v2");
  else
    library_->require(library_->by_bus(pci_bus_id.c_str(), &device_), "nvmlDeviceGetHandleByPciBusId_v2");
}

Nvml::~Nvml() = default;
Nvml::Nvml(Nvml&&) noexcept = default;

std::optional<GpuSample> Nvml::read() const {
  NvmlUtilization utilization;
  NvmlMemory memory;
  if (library_->utilization(device_, &utilization) != kNvmlSuccess) return {};
  if (library_->memory(device_, &memory) != kNvmlSuccess) return {};
  return GpuSample{.busy_percent = static_cast<double>(utilization.gpu),
                   .memory_busy_percent = static_cast<double>(utilization.memory),
                   .memory_bytes = static_cast<int64_t>(memory.used),
                   .memory_total_bytes = static_cast<int64_t>(memory.total)};
}

}  // namespace penstock
