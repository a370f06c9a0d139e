// CudaGraphStep: warm-up, capture, replays, and the steps that are none of them.
#include "train/loop/cuda_graph_step.h"

#include <c10/util/Exception.h>

#include <utility>

#include "core/text.h"

namespace penstock {
namespace {

std::string first_line(const char* text) {
  const std::string whole = text;
  return whole.substr(0, whole.find('\n'));
}

}  // namespace

CudaGraphStep::CudaGraphStep(Strategy& strategy, CapturableStep& halves, Feeder& feeder, Recorder& recorder,
                             std::unique_ptr<CudaGraph> graph, torch::Tensor sums,
                             std::function<void(const std::string&)> log)
    : strategy_(strategy),
      halves_(halves),
      feeder_(feeder),
      recorder_(recorder),
      graph_(std::move(graph)),
      sums_(std::move(sums)),
      log_(std::move(log)) {}

void CudaGraphStep::add(const StepSums& sums) {
  sums_[0].add_(sums.loss);
  sums_[1].add_(sums.correct);
}

CudaGraph::Work CudaGraphStep::work_of(const DeviceBatch& batch) {
  return [this, batch] {
    DeviceBatch made = batch;
    feeder_.make(made);
    add(halves_.compute_gradients(made));
    return halves_.gradients();
  };
}

int64_t CudaGraphStep::run_eagerly(DeviceBatch batch) {
  feeder_.make(batch);
  recorder_.mark(Phase::kHostToDevice);
  const StepSums sums = strategy_.step(batch);
  add(sums);
  return sums.count;
}

/// False if the step cannot be captured.
bool CudaGraphStep::capture(const DeviceBatch& batch) {
  // Whether the device has passed a mark cannot be asked during a capture; after this, no mark is left to ask about.
  recorder_.times();
  try {
    graph_->capture(work_of(batch));
    is_captured_ = true;
  } catch (const c10::Error& error) {
    has_failed_ = true;
    graph_->reset();
    log_(concat("--graph: the steps run without a graph, because this one cannot be captured: ",
                first_line(error.what_without_backtrace())));
  }
  return is_captured_;
}

int64_t CudaGraphStep::run(const DeviceBatch& batch) {
  if (batch.count < batch.rows || has_failed_) return run_eagerly(batch);
  const Kind kind{batch.rows, batch.global_count, feeder_.render_variant()};
  if (kind != kind_) {
    kind_ = kind, warm_ups_ = 0, is_captured_ = false;
    graph_->reset();
  }
  halves_.begin_step();
  if (warm_ups_ < kWarmUps) {
    graph_->warm_up(work_of(batch));
    ++warm_ups_;
  } else {
    if (!is_captured_ && !capture(batch)) return run_eagerly(batch);
    graph_->replay();
    ++replay_count_;
  }
  recorder_.mark(Phase::kForward);
  halves_.update(graph_->results());
  return batch.count;
}

}  // namespace penstock
