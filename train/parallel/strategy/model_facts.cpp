// ModelFacts: read off the modules of a model.
#include "train/parallel/strategy/model_facts.h"

#include <functional>
#include <numeric>

#include "train/nn/batch_norm.h"
#include "train/nn/model.h"
#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {

int64_t ParameterFacts::count() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

ModelFacts facts_of(const Model& model) {
  ModelFacts facts;
  for (const auto& block : model.blocks()) facts.blocks.push_back(block.name);
  for (const auto& item : model.named_parameters()) {
    const auto& tensor = item.value();
    facts.parameters.push_back({block_of(model, item.key()),
                                tensor.numel() * static_cast<int64_t>(tensor.element_size()), tensor.requires_grad(),
                                tensor.sizes().vec()});
  }
  for (const auto& item : model.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto& module = *item.value();
    if (module.as<BatchNorm2dImpl>() != nullptr) {
      facts.batch_norms.resize(facts.blocks.size());
      ++facts.batch_norms[block_of(model, item.key() + ".weight")];
    } else if (module.as<torch::nn::BatchNorm1dImpl>() != nullptr ||
               module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
               module.as<torch::nn::BatchNorm3dImpl>() != nullptr) {
      facts.foreign_norms.push_back(item.key());
    }
  }
  return facts;
}

}  // namespace penstock::detail
