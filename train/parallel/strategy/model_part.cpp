// ModelPart: what is held moves to the device, what is not is released.
#include "train/parallel/strategy/model_part.h"

#include <algorithm>

#include "train/nn/drop.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/tensor/storage.h"

namespace penstock::detail {

size_t block_of(const Model& model, const std::string& tensor) {
  const auto& blocks = model.blocks();
  const auto found = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) {
    return std::any_of(block.modules.begin(), block.modules.end(),
                       [&](const auto& module) { return is_inside(tensor, module); });
  });
  return found == blocks.end() ? 0 : static_cast<size_t>(found - blocks.begin());
}

ModelPart::ModelPart(Model& model, std::vector<BlockRange> chunks, const torch::Device& device, bool is_outline)
    : model_(model), chunks_(std::move(chunks)), block_count_(model.blocks().size()) {
  at::NoGradGuard no_grad;
  const auto take = [&](const torch::OrderedDict<std::string, torch::Tensor>& tensors, NamedTensors& held) {
    for (const auto& item : tensors) {
      auto tensor = item.value();
      if (!holds(item.key())) {
        release_memory(tensor);
        continue;
      }
      if (is_outline) {
        const auto empty = torch::empty_like(tensor, tensor.options().device(device).requires_grad(false));
        release_memory(empty);
        tensor.set_data(empty);
      } else if (tensor.device() != device) {
        tensor.set_data(tensor.to(device));
      }
      held.emplace_back(item.key(), tensor);
    }
  };
  take(model.named_parameters(), parameters_);
  take(model.named_buffers(), buffers_);
  for (const auto& item : parameters_)
    if (item.second.requires_grad()) trained_.push_back(item);
}

bool ModelPart::holds(const std::string& name) const {
  const size_t block = block_of(model_, name);
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [&](const BlockRange& chunk) { return chunk.first <= block && block < chunk.end; });
}

torch::Tensor ModelPart::forward(torch::Tensor x, size_t chunk) const {
  for (size_t block = chunks_[chunk].first; block < chunks_[chunk].end; ++block) x = run(block, x);
  return x;
}

torch::Tensor ModelPart::run(size_t block, const torch::Tensor& x) const {
  if (before_block_) before_block_(block);
  if (store_) store_->enter(block);
  auto output = model_.blocks()[block].forward(x);
  if (store_) store_->leave(block, output);
  return output;
}

std::vector<size_t> ModelPart::blocks_of_parameters() const {
  std::vector<size_t> blocks;
  for (const auto& [name, parameter] : parameters_) blocks.push_back(block_of(model_, name));
  return blocks;
}

void ModelPart::for_each_whole(const std::function<void(const std::string&, const torch::Tensor&)>& use) const {
  const auto blocks = blocks_of_parameters();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, parameter] = parameters_[i];
    const size_t block = blocks[i];
    if (store_ && (i == 0 || blocks[i - 1] != block)) store_->gather(block);
    use(name, parameter.detach());
    if (store_ && (i + 1 == blocks.size() || blocks[i + 1] != block)) store_->put_back(block);
  }
}

void ModelPart::load(const std::string& name, const torch::Tensor& value) {
  at::NoGradGuard no_grad;
  for (size_t i = 0; store_ && i < parameters_.size(); ++i)
    if (parameters_[i].first == name) return store_->load(i, value);
  for (const auto* held : {&parameters_, &buffers_})
    for (const auto& [own, tensor] : *held) {
      if (own != name) continue;
      if (tensor.storage().nbytes() == 0) take_memory(tensor);
      tensor.detach().copy_(value);
    }
}

bool ModelPart::has_drops() const { return penstock::has_drops(model_); }

void ModelPart::train(bool on) {
  if (model_.is_training() != on) model_.train(on);
}

}  // namespace penstock::detail
