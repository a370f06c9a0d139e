// ModelPart: the blocks of a model that one rank holds, on its device.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/parallel/strategy/parameter_store.h"
#include "train/parallel/strategy/schedule.h"
#include "train/tensor/named_tensors.h"

namespace penstock {

class Model;

namespace detail {

/// The blocks of one or several ranges, each of which is a chunk. The blocks of a chunk run one after the other.
///
/// Memory: the tensors of the other blocks lose theirs; names and sizes stay, so that every rank knows the whole model.
/// Thread-safety: one thread.
class ModelPart {
 public:
  /// Moves the tensors of `chunks` to `device`. A tensor that no block names belongs to the first block. Requires that
  /// the chunks are in the order of the model and do not overlap, and that the model is on the CPU, or whole on
  /// `device`. With `is_outline` its tensors have no memory before load() gives them values.
  ModelPart(Model& model, std::vector<BlockRange> chunks, const torch::Device& device, bool is_outline = false);

  /// The first block takes images, the last gives logits; between them are activations.
  torch::Tensor forward(torch::Tensor x, size_t chunk = 0) const;
  void train(bool on);
  bool has_drops() const;  ///< Of the whole model, as penstock::has_drops().

  const std::vector<BlockRange>& chunks() const { return chunks_; }
  size_t chunk_count() const { return chunks_.size(); }
  /// Whether this chunk has the model's first block, or its last one.
  bool is_first(size_t chunk = 0) const { return chunks_[chunk].first == 0; }
  bool is_last(size_t chunk) const { return chunks_[chunk].end == block_count_; }
  /// Whether the parameter or buffer of this name is held here.
  bool holds(const std::string& name) const;

  /// From now on `call` is called before each block that this part runs.
  void before_blocks(std::function<void(size_t block)> call) { before_block_ = std::move(call); }

  /// From now on `store` keeps the parameters, which are whole while their block runs.
  void keep_in(std::shared_ptr<ParameterStore> store) { store_ = std::move(store); }
  const ParameterStore* store() const { return store_.get(); }  ///< Null: parameters are always whole.
  /// Collective over the ranks that hold the same blocks. Each parameter is whole while `use` has it, to be read.
  void for_each_whole(const std::function<void(const std::string& name, const torch::Tensor& parameter)>& use) const;
  /// Copies the value of a parameter or buffer from any device, if it is held here.
  void load(const std::string& name, const torch::Tensor& value);

  size_t block_count() const { return block_count_; }  ///< Of the whole model.
  std::vector<size_t> blocks_of_parameters() const;    ///< One entry per parameter.
  const NamedTensors& parameters() const { return parameters_; }
  const NamedTensors& buffers() const { return buffers_; }
  const NamedTensors& trained() const { return trained_; }  ///< The parameters without those that are frozen.

 private:
  torch::Tensor run(size_t block, const torch::Tensor& x) const;

  Model& model_;
  std::vector<BlockRange> chunks_;
  size_t block_count_;
  NamedTensors parameters_, buffers_, trained_;
  std::function<void(size_t)> before_block_;
  std::shared_ptr<ParameterStore> store_;  // shared with the update and the gradient sync
};

/// The block that a parameter or buffer belongs to.
size_t block_of(const Model& model, const std::string& tensor);

}  // namespace detail
}  // namespace penstock
