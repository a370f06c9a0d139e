// Setup: everything that a run needs, opened and checked before any thread or rank starts or any file is written; the
// model that it begins with.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/feed/training_data.h"
#include "train/nn/model.h"
#include "train/options/options.h"
#include "train/run/world.h"

namespace penstock {

struct Setup {
  TrainOptions options;         ///< Resolved.
  bool has_new_folder = false;  ///< --out was not given, and has a default that contains the time.
  World world;
  torch::DeviceType device = torch::kCPU;
  TrainingData data;
  std::optional<Pipeline> pipeline, eval_pipeline;
  ModelShape shape;
  std::map<std::string, double> rate_factors;  ///< For StrategyContext, as the next.
  StepOptions step_options;
  std::shared_ptr<const Loss> loss;  ///< For evaluations: without smoothed labels.
  uint64_t rows_per_epoch = 0;       ///< In training, over all ranks: SampleOrder::rows().
  std::string selection;             ///< Which samples those are: SampleOrder::identity().
  std::unique_ptr<Model> model;      ///< Initialised from the seed, or pretrained; on the CPU.
  NamedTensors initial_weights;      ///< Those that follow from pictures of training; most models have none.
  bool is_outline = false;           ///< The model has names and sizes and no memory; see for_each_weight().
  std::string pretrained;  ///< identity_of_weights() of --pretrained, for ranks that compare it; "": not needed.
  std::optional<Checkpoint> checkpoint;
  CheckpointInfo info;  ///< That of this run; its position is where the run starts.
};

/// Copies weights into those of the model that have their names.
void take_weights(Model& model, const NamedTensors& weights);

/// Requires that the learning rate is resolved.
OptimizerOptions optimizer_options(const OptimizationOptions& options);

/// The model as it is before the first step: with weights that depend on the seed alone, or pretrained, and with its
/// frozen layers; on the CPU. Sets LibTorch's random numbers to what they are after one model was made.
std::unique_ptr<Model> make_model(const Setup& setup);

/// The same model without memory for its weights, which for_each_weight() gives one by one: `use` has each as long as
/// it runs, some of them twice, and what it gets last counts. Both throw what is wrong with pretrained weights, and may
/// be called by several threads.
std::unique_ptr<Model> make_outline(const Setup& setup);
void for_each_weight(const Setup& setup, const UseTensor& use);

/// Threads that LibTorch starts for `--threads count` in addition to the caller's: those of OpenMP, and those of its
/// own pool.
constexpr int intra_op_threads(int count) { return 2 * (count - 1); }

}  // namespace penstock
