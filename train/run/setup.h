// Setup: everything that a run needs, opened and checked before a thread or a rank starts, or a file is written.
#pragma once

#include <functional>
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
  std::unique_ptr<Model> model;  ///< Initialised from the seed, or pretrained; on the CPU.
  std::optional<Checkpoint> checkpoint;
  CheckpointInfo info;  ///< Of this run; the position is where it starts.
};

/// Packs a foreign source on the way, which `say` hears of. Throws what is wrong with the options, the data, or the
/// files.
Setup set_up(TrainOptions options, const std::function<void(const std::string&)>& say);

/// What `--threads count` makes LibTorch start beside the caller's thread: OpenMP's, and those of its own pool.
constexpr int intra_op_threads(int count) { return 2 * (count - 1); }

}  // namespace penstock
