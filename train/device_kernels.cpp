// DeviceKernels: compiles for the device's own architecture, loads the code, and starts kernels on the current stream.
#include "train/device_kernels.h"

#ifdef PENSTOCK_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/kernel_compiler.h"

namespace penstock {
namespace {

class CpuKernels final : public DeviceKernels {
 public:
  void run(const KernelBatch& batch, std::span<const std::byte> arguments) override { run_on_cpu(batch, arguments); }
};

#ifdef PENSTOCK_HAS_CUDA

void check_cuda(cudaError_t result, const std::string& what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // otherwise the next call of the run time would find it
  throw device_error(concat("device decoder: ", what, ": ", cudaGetErrorString(result),
                            "; expected a device that runs its kernels, or use no --resident for photographs"));
}

class CudaKernels final : public DeviceKernels {
 public:
  explicit CudaKernels(const torch::Device& device) : device_(device) {
    const c10::cuda::CUDAGuard guard(device);
    int major = 0, minor = 0;
    check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()), "its capability");
    check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index()), "its capability");
    const std::vector<char> code = compile_kernels(major, minor);
    check_cuda(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
               concat("loading the code for sm_", major, minor));
  }
  ~CudaKernels() override { cudaLibraryUnload(library_); }
  CudaKernels(const CudaKernels&) = delete;

  void run(const KernelBatch& batch, std::span<const std::byte> arguments) override {
    const c10::cuda::CUDAGuard guard(device_);
    const auto stream = c10::cuda::getCurrentCUDAStream(device_.index()).stream();
    const auto launches = batch.launches();
    for (size_t i = 0; i < launches.size(); ++i) {
      const KernelLaunch& launch = launches[i];
      if (launch.blocks == 0) continue;
      if (launch.blocks > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
        throw device_error(concat("device decoder: ", launch.name, " needs ", launch.blocks,
                                  " blocks; expected at most ", std::numeric_limits<int32_t>::max(),
                                  ": use a smaller batch"));
      if (kernels_[i] == nullptr) check_cuda(cudaLibraryGetKernel(&kernels_[i], library_, launch.name), launch.name);
      // The run time copies the argument during the call.
      void* argument = const_cast<std::byte*>(arguments.data());
      check_cuda(
          cudaLaunchKernel(reinterpret_cast<const void*>(kernels_[i]), dim3(static_cast<unsigned>(launch.blocks)),
                           dim3(static_cast<unsigned>(launch.threads)), &argument, 0, stream),
          concat("starting ", launch.name));
    }
  }

 private:
  torch::Device device_;
  cudaLibrary_t library_ = nullptr;
  std::array<cudaKernel_t, KernelBatch::kKernelCount> kernels_{};  // looked up when they are first started
};

#endif

}  // namespace

std::unique_ptr<DeviceKernels> make_device_kernels(const torch::Device& device) {
#ifdef PENSTOCK_HAS_CUDA
  if (device.is_cuda()) return std::make_unique<CudaKernels>(device);
#endif
  if (!device.is_cpu())
    throw device_error(concat("device decoder: has no kernels for ", device.str(), "; expected cpu or cuda"));
  return std::make_unique<CpuKernels>();
}

}  // namespace penstock
