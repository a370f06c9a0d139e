// CudaGraphStep: a training step whose operations are captured once as a graph of the device and then replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "train/feed/feeder.h"
#include "train/loop/cuda_graph.h"
#include "train/measure/recorder.h"
#include "train/parallel/strategy/capturable_step.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {

/// The graph has the making of the batch from its plans, forward, backward, and the sums of loss and hits:
///
///     host     copy plans | replay | update      copy plans | replay | update
///     device   plans of the batch -> images -> forward -> backward -> sums | update
///
/// The update stays outside of it: its learning rate and step count are numbers of the host, which a graph would keep
/// as they were. It is one fused kernel with sgd, adam and adamw.
///
/// The first kWarmUps steps of a kind run as they are, the next one is captured. Batches that are not full run as they
/// are, always. A step of another kind (other operations make its batch) is captured anew, in place of the last one.
///
/// Equality: the bits are those of the steps without a graph, because the same operations run in the same order.
/// Errors: if the capture fails, `log` hears why in one line, and this and all later steps run as they are.
/// Thread-safety: the training thread's alone.
class CudaGraphStep {
 public:
  /// PyTorch's notes on CUDA graphs ask for 3: in the first one kernels are loaded and libraries choose algorithms.
  static constexpr int kWarmUps = 3;

  /// Adds every step's loss and hits to `sums` (f64, 2) on its device. `halves` is `strategy` as a CapturableStep. All
  /// outlive this. Requires halves.capture_obstacle() == "" and feeder.defer_rendering().
  CudaGraphStep(Strategy& strategy, CapturableStep& halves, Feeder& feeder, Recorder& recorder,
                std::unique_ptr<CudaGraph> graph, torch::Tensor sums, std::function<void(const std::string&)> log);

  /// One step over the batch that the feeder gave last. On CUDA, Phase::kForward gets the whole replay, and what makes
  /// the batch is a part of it. Returns the rows that the sums are of.
  int64_t run(const DeviceBatch& batch);

  int64_t replay_count() const { return replay_count_; }

 private:
  /// What a captured step depends on, beside the memory that it reads.
  struct Kind {
    int64_t rows = -1, global_count = -1, making = -1;
    friend bool operator==(const Kind&, const Kind&) = default;
  };

  CudaGraph::Work work_of(const DeviceBatch& batch);
  int64_t run_eagerly(DeviceBatch batch);
  bool capture(const DeviceBatch& batch);
  void add(const StepSums& sums);

  Strategy& strategy_;
  CapturableStep& halves_;
  Feeder& feeder_;
  Recorder& recorder_;
  std::unique_ptr<CudaGraph> graph_;
  torch::Tensor sums_;
  std::function<void(const std::string&)> log_;
  Kind kind_;
  int warm_ups_ = 0;  // of this kind
  bool is_captured_ = false, has_failed_ = false;
  int64_t replay_count_ = 0;
};

}  // namespace penstock
