// Checkpoints: everything that a run needs to continue, in one safetensors file that is the same for any number of
// ranks.
//
// Lives here: what survives a run: checkpoints, which of them are kept, the last one of a folder, --resume auto.
// Not here: what a strategy puts into a checkpoint (parallel/engine/engine_state.h), and options.json
// (train/options).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "train/nn/gradient_scale.h"
#include "train/nn/shape.h"
#include "train/options/plateau.h"
#include "train/parallel/strategy/strategy.h"
#include "train/tensor/tensor_file.h"

namespace penstock {

/// A place in a run, between two steps. The sums are over all ranks and over the epoch so far.
struct Position {
  int64_t epoch = 0;  ///< From 0.
  int64_t batch = 0;  ///< The index, in its epoch, of the next batch to train on; after the last one: only to evaluate.
  int64_t step = 0;   ///< Steps done since the run began.
  double loss_sum = 0;
  int64_t correct_count = 0, sample_count = 0;
  std::optional<double> best_accuracy;  ///< The best of the evaluations so far.
  std::optional<PlateauState> plateau;  ///< With --schedule plateau.
  std::optional<GradientScale> scale;   ///< With --precision f16 whose scale adapts.
};

/// What a checkpoint says about the run that wrote it, in addition to its tensors.
struct CheckpointInfo {
  static constexpr int kFormatVersion = 1;

  std::string arch;
  std::string optimizer = "sgd";  // without its keys, which may change as --lr may
  std::string average;            // "ema" or "lookahead", likewise; empty: none, or written before it was noted
  ModelShape shape;
  Position position;
  // The bits of the next steps depend on the following. To continue in the middle of an epoch, the first five must be
  // the same.
  uint64_t seed = 0;
  int64_t batch_size = 0;
  std::string shuffle, tail;
  uint64_t dataset_size = 0;
  std::string data;       // identity_of() the manifest; empty: written before it was noted
  std::string selection;  // SampleOrder::identity(); empty: every sample once
  int world_size = 1;
  int threads = 1;
  std::string augment;
};

struct Checkpoint {
  CheckpointInfo info;
  StateDict state;                               // the mapped bytes of the file, which take no memory
  std::shared_ptr<const Safetensors> file = {};  // check_read() after the last use of `state`
};

/// A file to which Strategy::for_each_state() writes. The file is written under another name, synced and renamed, so
/// that `path` is always a whole one. Errors: io_error.
class StateFile {
 public:
  /// A checkpoint: all tensors under their names, and `info` as JSON under the metadata key "penstock".
  StateFile(const std::filesystem::path& path, const NamedTensors& sizes, const CheckpointInfo& info);
  /// Only the model, with `which` its average if there is one, with parameter and buffer names without a prefix
  /// (`conv1.weight`), as --pretrained and other programs read them.
  enum class Which { kAverage, kWeights };
  StateFile(const std::filesystem::path& path, const NamedTensors& sizes, const std::string& arch,
            Which which = Which::kAverage);

  /// Writes it if it belongs into the file. Requires that this is its first time.
  void put(const std::string& name, const torch::Tensor& tensor);
  void commit() { file_.commit(); }

 private:
  std::string prefix_;  // of the names that belong into the file, where it is left out
  TensorWriter file_;
};

/// Opens a checkpoint. Errors: io_error for a file that is missing; corrupt_error for a file that is no safetensors
/// file, no checkpoint, or of another format version.
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// The same for what it says without its tensors, which are not read: they may be damaged.
CheckpointInfo load_checkpoint_info(const std::filesystem::path& path);

/// Throws config_error that names both sides if the checkpoint is for another arch, number of classes or picture size.
void check_same_model(const std::filesystem::path& path, const CheckpointInfo& info, const std::string& arch,
                      const ModelShape& shape);

/// Throws config_error that names both sides if the checkpoint has the state of another optimiser than that of `now`.
void check_same_optimizer(const std::filesystem::path& path, const CheckpointInfo& info, const CheckpointInfo& now);

/// Whether the state has the average of the weights beside them.
bool has_average(const StateDict& state);

/// Throws config_error if the checkpoint has an average and `now` has none, or the other way round, or if they are of
/// different kinds.
void check_same_average(const std::filesystem::path& path, const Checkpoint& checkpoint, const CheckpointInfo& now);

/// Throws config_error that names both sides if the checkpoint is of a run on other data than those of `now`. One that
/// does not name its data passes.
void check_same_data(const std::filesystem::path& path, const CheckpointInfo& info, const CheckpointInfo& now);

/// Throws config_error that names the option and both values if continuing in the middle of an epoch would train on
/// some samples twice and on others never: if `now` has another seed, batch size, shuffle, tail, data set, subset or
/// sampler, or, with rank-local shuffling, another world size. At the start of an epoch all of these may change.
void check_same_order(const std::filesystem::path& path, const CheckpointInfo& info, const CheckpointInfo& now);
}  // namespace penstock
