// Setup: everything that a run needs, opened and checked before any thread or rank starts or any file is written.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "train/checkpoint.h"
#include "train/data.h"
#include "train/options.h"
#include "train/run/world.h"

namespace penstock {

struct Setup {
  TrainOptions options;  ///< Resolved.
  World world;
  torch::DeviceType device = torch::kCPU;
  TrainingData data;
  std::optional<Pipeline> pipeline, eval_pipeline;
  ModelShape shape;
  std::map<std::string, double> rate_factors;  ///< For StrategyContext.
  std::unique_ptr<Model> model;                ///< Initialised from the seed, or pretrained; on the CPU.
  std::optional<Checkpoint> checkpoint;
  CheckpointInfo info;  ///< That of this run; its position is where the run starts.
};

/// Packs the data if --data names a source; `say` then gets lines about it. Throws what is wrong with the options, the
/// data or the files.
Setup set_up(TrainOptions options, const std::function<void(const std::string&)>& say);

/// Requires that the learning rate is resolved.
OptimizerOptions optimizer_options(const TrainOptions& options);

/// The model as it is before the first step: with weights that depend on the seed alone, or pretrained, and with its
/// frozen layers; on the CPU. Sets LibTorch's random numbers to what they are after one model was made.
std::unique_ptr<Model> make_model(const Setup& setup);

/// Threads that LibTorch starts for `--threads count` in addition to the caller's: those of OpenMP, and those of its
/// own pool.
constexpr int intra_op_threads(int count) { return 2 * (count - 1); }

}  // namespace penstock
