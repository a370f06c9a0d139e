// StepRunner: how a rank computes its step, really or as an emulation.
#pragma once

#include <torch/types.h>

#include <string>

#include "train/comm/comm.h"
#include "train/measure/recorder.h"
#include "train/parallel/pipeline/stage_link.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/model_part.h"
#include "train/parallel/strategy/strategy.h"
#include "train/parallel/strategy/update.h"

namespace penstock::detail {

class Replicas;
class StepTaps;

/// What one rank's step is made of. All of it outlives the step's runner.
struct StepParts {
  const StepPlan& plan;  // with its stages
  const Placement& placement;
  const Schedule& schedule;  // of this rank
  ModelPart& part;
  StageLink& link;  // between the ranks of one copy of the model
  Update& update;
  GradientSync& sync;
  Comm& data;     // the ranks that hold the same stages
  int pipe_rank;  // along the pipe axis
  torch::Device device;
  Recorder& recorder;
  bool spans_ranks;              // layers take statistics over the ranks of the batch, also where one has no rows
  Replicas* replicas = nullptr;  // run the whole model, on several devices; null: the part runs
  StepTaps* taps = nullptr;      // as StrategyContext::taps
};

/// The sums of no rows.
inline StepSums no_sums(const torch::Device& device) {
  const auto options = torch::dtype(torch::kFloat32).device(device);
  return {torch::zeros({}, options), torch::zeros({}, options.dtype(torch::kInt64)), 0};
}

/// Thread-safety: the training thread's alone.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// Forward, backward and the sums of gradients, by which the parameters then change.
  virtual StepSums compute_gradients(const DeviceBatch& batch) = 0;
  virtual void update() = 0;
  /// The logits where the last part is, elsewhere an undefined tensor. Requires evaluation mode and no gradients.
  virtual torch::Tensor evaluate(const DeviceBatch& batch) = 0;
  /// As Strategy::most_alive() and CapturableStep::capture_obstacle().
  virtual int most_alive() const = 0;
  virtual std::string capture_obstacle() const = 0;
};

}  // namespace penstock::detail
