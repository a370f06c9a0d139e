// EngineState: what of an engine is in a checkpoint, and where it lies.
#pragma once

#include <string>
#include <vector>

#include "train/nn/model.h"
#include "train/parallel/engine/step_runner.h"
#include "train/parallel/engine/weight_average.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

/// The state of all ranks, as Strategy has it: the model, the optimiser's slots, the average, and what a rank keeps for
/// itself, as strategy.<owner>.<data rank>.<entry>, of which what is equal at all ranks is there once, with `all` as
/// its rank. Thread-safety: the training thread's alone.
class EngineState {
 public:
  /// All of it outlives this. Requires parts whose weights are there.
  EngineState(const Model& model, Comm& world, const StepParts& parts, WeightAverage& average)
      : model_(model), world_(world), parts_(parts), average_(average) {}

  NamedTensors sizes() const;
  /// Collective, as Strategy::for_each_state(). Requires that the ranks of the data axis have the same buffers, and
  /// that the average is not shown.
  void for_each(const UseTensor& use);
  /// As Strategy::load_state(); the result as Strategy::left_out(). Rank-local entries are loaded if the checkpoint has
  /// those of exactly this sync and number of ranks, which every rank decides alike.
  std::string load(const StateDict& state);

 private:
  /// One tensor of for_each().
  struct Entry {
    std::string name;       // "optimizer.momentum.fc.weight"
    std::string of_tensor;  // "fc.weight", which says the stage; empty: every rank has it
    torch::Tensor like;     // with its sizes and dtype
  };

  /// All but the rank-local ones, in the model's order.
  std::vector<Entry> expected() const;
  void check(const StateDict& state, const std::vector<Entry>& expected) const;
  /// The first rank of the data axis that holds the stage of this tensor.
  int holder_of(const std::string& tensor) const;
  /// Collective over the data axis, at its first rank: all that its ranks hold of expected(), whole; each is valid
  /// while `use` has it.
  void for_each_held(const UseTensor& use);

  RankLocalState rank_local() const;
  NamedTensors rank_local_sizes() const;
  void for_each_rank_local(const UseTensor& use);
  std::string load_rank_local(const StateDict& state);

  const Model& model_;
  Comm& world_;
  StepParts parts_;
  WeightAverage& average_;
};

}  // namespace penstock::detail
