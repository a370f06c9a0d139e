// CudaGraph: operations of a device that are captured once as a CUDA graph and then started as one.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace penstock {

/// Work is captured by running it once while the device executes nothing. A replay then executes the captured
/// operations with the arguments that they had: the same addresses, and the same numbers where the host gave numbers.
///
/// Equality: a replay gives the bits of a run of the work. Memory: all that the work allocates is kept for replays.
/// Errors: c10::Error if the work cannot be captured, for example because the host reads from the device in it; then
/// this can be used again after reset(). Thread-safety: one thread.
class CudaGraph {
 public:
  /// The result: tensors that every replay writes anew.
  using Work = std::function<std::vector<torch::Tensor>()>;

  virtual ~CudaGraph() = default;
  /// Runs the work as it is, where captures run theirs: libraries allocate now what they keep, and kernels are loaded.
  virtual void warm_up(const Work& work) = 0;
  virtual void capture(const Work& work) = 0;
  virtual void replay() = 0;  ///< Requires capture().
  virtual void reset() = 0;   ///< Forgets what was captured.
  /// The results of what ran last.
  const std::vector<torch::Tensor>& results() const { return results_; }

 protected:
  std::vector<torch::Tensor> results_;
};

/// On the CPU, which has no graphs: an object for the same calls, which keeps the work of the capture and runs that
/// very work in every replay. So a test on the CPU finds numbers and tensors that a step passes on from the host, which
/// a graph would not see again.
std::unique_ptr<CudaGraph> make_device_graph(const torch::Device& device);

/// What makes the graphs of a CUDA device; libpenstock_cuda.so says it when it is loaded, before main()
/// (train/tensor/cuda_library.h).
using DeviceGraphMaker = std::unique_ptr<CudaGraph>(const torch::Device& device);
void set_device_graph_maker(DeviceGraphMaker* maker);

}  // namespace penstock
