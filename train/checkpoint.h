// Checkpoints: everything that a run needs to go on, in one safetensors file that does not know how many ranks wrote
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "train/models/shape.h"
#include "train/strategies/strategy.h"

namespace penstock {

/// Where a run stands: between two steps. The sums are of all ranks over the epoch so far.
struct Position {
  int64_t epoch = 0;  ///< From 0.
  int64_t batch = 0;  ///< Of the epoch; the next one to be trained on.
  int64_t step = 0;   ///< Steps done since the run began.
  double loss_sum = 0;
  int64_t correct_count = 0, sample_count = 0;
  std::optional<double> best_accuracy;  ///< Of the evaluations so far.
};

/// What a checkpoint says of the run that wrote it, beside its tensors.
struct CheckpointInfo {
  static constexpr int kFormatVersion = 1;

  std::string arch;
  ModelShape shape;
  Position position;
  // What the bits of the next steps depend on. In the middle of an epoch the first five must be the same to go on.
  uint64_t seed = 0;
  int64_t batch_size = 0;
  std::string shuffle, tail;
  uint64_t dataset_size = 0;
  int world_size = 1;
  int threads = 1;
  std::string augment;
};

struct Checkpoint {
  CheckpointInfo info;
  StateDict state;
};

/// Tensors under the names of Strategy::state(), `info` as JSON under the metadata key "penstock". Written aside,
/// synced, renamed: a file of this name is always a whole checkpoint. Errors: io_error.
void save_checkpoint(const std::filesystem::path& path, const CheckpointInfo& info, const StateDict& state);

/// Errors: io_error for a file that is missing; corrupt_error for one that is no safetensors file, no checkpoint, or of
/// another format version. The tensors are copies.
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// Throws config_error naming both sides when the checkpoint is of another arch, number of classes or picture size.
void check_same_model(const std::filesystem::path& path, const CheckpointInfo& info, const std::string& arch,
                      const ModelShape& shape);

/// Throws config_error naming the option and both values when going on in the middle of an epoch would show some
/// samples twice and others never: `now` has another seed, batch size, shuffle, tail or data set, or, with rank-local
/// shuffling, another world size. At the start of an epoch anything goes.
void check_same_order(const std::filesystem::path& path, const CheckpointInfo& info, const CheckpointInfo& now);

/// Plain parameter and buffer names without prefix (`conv1.weight`), which --pretrained and other tools read.
void save_model(const std::filesystem::path& path, const StateDict& state, const std::string& arch);

}  // namespace penstock
