// DeviceKernels: compiles for the device's own architecture, loads the code, and starts kernels on the current stream.
#include "train/resident/device_kernels.h"

#ifdef PENSTOCK_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

#include <array>
#include <future>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/resident/kernel_compiler.h"

namespace penstock {
namespace {

class CpuKernels final : public DeviceKernels {
 public:
  void run(const KernelLaunches& launches, std::span<const std::byte> arguments) override {
    run_on_cpu(launches, arguments);
  }
};

#ifdef PENSTOCK_HAS_CUDA

void check_cuda(cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // otherwise the next call of the run time would find it
  throw device_error(concat("device renderer: ", what, ": ", cudaGetErrorString(result),
                            "; expected a device that runs its kernels, or use no --resident"));
}

class CudaKernels final : public DeviceKernels {
 public:
  explicit CudaKernels(const torch::Device& device) : device_(device) {
    check_cuda(cudaDeviceGetAttribute(&major_, cudaDevAttrComputeCapabilityMajor, device.index()), "its capability");
    check_cuda(cudaDeviceGetAttribute(&minor_, cudaDevAttrComputeCapabilityMinor, device.index()), "its capability");
  }
  ~CudaKernels() override {
    for (const Kernel& kernel : kernels_)
      if (kernel.library != nullptr) cudaLibraryUnload(kernel.library);
  }
  CudaKernels(const CudaKernels&) = delete;

  void prepare(const KernelLaunches& launches) override {
    prepared_ = launches;
    for (size_t i = 0; i < launches.size(); ++i)
      if (launches[i].blocks > 0) begin_compiling(i);
  }

  void load() override {
    const c10::cuda::CUDAGuard guard(device_);
    for (size_t i = 0; i < prepared_.size(); ++i)
      if (prepared_[i].blocks > 0) loaded(i, prepared_[i].name);
  }

  void run(const KernelLaunches& launches, std::span<const std::byte> arguments) override {
    const c10::cuda::CUDAGuard guard(device_);
    const auto stream = c10::cuda::getCurrentCUDAStream(device_.index()).stream();
    for (size_t i = 0; i < launches.size(); ++i) {
      const KernelLaunch& launch = launches[i];
      if (launch.blocks == 0) continue;
      if (launch.blocks > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
        throw device_error(concat("device renderer: ", launch.name, " needs ", launch.blocks,
                                  " blocks; expected at most ", std::numeric_limits<int32_t>::max(),
                                  ": use a smaller batch"));
      // The run time copies the argument during the call.
      void* argument = const_cast<std::byte*>(arguments.data());
      check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(loaded(i, launch.name)),
                                  dim3(static_cast<unsigned>(launch.blocks)),
                                  dim3(static_cast<unsigned>(launch.threads)), &argument, 0, stream),
                 concat("starting ", launch.name));
    }
  }

 private:
  struct Kernel {
    std::future<std::vector<char>> code;  // valid until it is loaded
    cudaLibrary_t library = nullptr;
    cudaKernel_t function = nullptr;
  };

  void begin_compiling(size_t i) {
    if (kernels_[i].function != nullptr || kernels_[i].code.valid()) return;
    // Where the system gives no thread, get() compiles instead.
    kernels_[i].code = std::async(std::launch::async | std::launch::deferred,
                                  [major = major_, minor = minor_, i] { return compile_kernel(major, minor, i); });
  }

  cudaKernel_t loaded(size_t i, const char* name) {
    Kernel& kernel = kernels_[i];
    if (kernel.function != nullptr) return kernel.function;
    begin_compiling(i);
    const std::vector<char> code = kernel.code.get();
    check_cuda(cudaLibraryLoadData(&kernel.library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
               concat("loading ", name, " for sm_", major_, minor_));
    check_cuda(cudaLibraryGetKernel(&kernel.function, kernel.library, name), name);
    return kernel.function;
  }

  torch::Device device_;
  int major_ = 0, minor_ = 0;
  KernelLaunches prepared_;
  std::array<Kernel, kKernelCount> kernels_;
};

#endif

}  // namespace

std::unique_ptr<DeviceKernels> make_device_kernels(const torch::Device& device) {
#ifdef PENSTOCK_HAS_CUDA
  if (device.is_cuda()) return std::make_unique<CudaKernels>(device);
#endif
  if (!device.is_cpu())
    throw device_error(concat("device renderer: has no kernels for ", device.str(), "; expected cpu or cuda"));
  return std::make_unique<CpuKernels>();
}

}  // namespace penstock
