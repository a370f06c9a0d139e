// NativeCudaGraph: at::cuda::CUDAGraph as a CudaGraph.
//
// Lives here: what uses libtorch_cuda by name, in a library of its own that is loaded where there is a driver.
// Not here: kernels (loader/device, train/resident), and all else that asks CUDA's run time alone.
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <optional>

#include "train/loop/cuda_graph.h"

namespace penstock {
namespace {

class NativeCudaGraph final : public CudaGraph {
 public:
  explicit NativeCudaGraph(const torch::Device& device)
      : side_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  /// On the stream that captures, because cuBLAS has a workspace per stream, which it allocates when it is first used.
  void warm_up(const Work& work) override {
    const auto current = c10::cuda::getCurrentCUDAStream(side_.device_index());
    begins_.record(current);
    begins_.block(side_);
    {
      const c10::cuda::CUDAStreamGuard guard(side_);
      results_ = work();
    }
    ends_.record(side_);
    ends_.block(current);
  }

  void capture(const Work& work) override {
    c10::cuda::getCurrentCUDAStream(side_.device_index()).synchronize();
    graph_.emplace();
    const c10::cuda::CUDAStreamGuard guard(side_);
    // Other threads may allocate pinned memory meanwhile, as the one that plans batches ahead does. In the default mode
    // of a capture that would end it.
    graph_->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      results_ = work();
    } catch (...) {
      give_up();
      throw;
    }
    try {
      graph_->capture_end();
    } catch (...) {
      stop_allocating();
      throw;
    }
  }

  void replay() override { graph_->replay(); }
  void reset() override {
    if (!graph_) return;
    c10::cuda::getCurrentCUDAStream(side_.device_index()).synchronize();  // it may still run
    graph_.reset();
  }

 private:
  void give_up() {
    try {
      graph_->capture_end();
    } catch (const c10::Error&) {  // a capture that was broken has no end either
      stop_allocating();
    }
    cudaGetLastError();  // otherwise the next call of the run time would find it
  }
  /// Where capture_end() has thrown, LibTorch's allocator still takes the capture for one that goes on.
  void stop_allocating() {
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(side_.device_index(), graph_->pool());
    } catch (const c10::Error&) {  // it has been told already
    }
    cudaGetLastError();
  }

  c10::cuda::CUDAStream side_;
  at::cuda::CUDAEvent begins_, ends_;
  std::optional<at::cuda::CUDAGraph> graph_;
};

const bool kRegistered = (set_device_graph_maker([](const torch::Device& device) -> std::unique_ptr<CudaGraph> {
                            return std::make_unique<NativeCudaGraph>(device);
                          }),
                          true);

}  // namespace
}  // namespace penstock
