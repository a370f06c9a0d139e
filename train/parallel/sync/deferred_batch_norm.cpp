// DeferredBatchNorm: one gather per step.
#include "train/parallel/sync/deferred_batch_norm.h"

#include "train/nn/batch_norm.h"
#include "train/nn/model.h"

namespace penstock::detail {

DeferredBatchNorm::DeferredBatchNorm(const Model& model, const ModelPart& part, Comm& data) : data_(data) {
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    if (auto layer = std::dynamic_pointer_cast<BatchNorm2dImpl>(item.value()))
      if (part.holds(item.key() + ".running_mean")) layers_.push_back(std::move(layer));
  for (const auto& layer : layers_) layer->defer(true);
}

DeferredBatchNorm::~DeferredBatchNorm() {
  for (const auto& layer : layers_) layer->defer(false);
}

void DeferredBatchNorm::finish() {
  if (layers_.empty()) return;
  std::vector<torch::Tensor> own;
  for (const auto& layer : layers_) own.push_back(layer->take_collected());
  const auto mine = torch::cat(own);
  const auto all = data_.world_size() > 1 ? data_.all_gather(mine) : mine.unsqueeze(0);
  int64_t first = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->commit(all.narrow(1, first, own[i].numel()));
    first += own[i].numel();
  }
}

void DeferredBatchNorm::before_forward(int) {
  for (const auto& layer : layers_) layer->collect(true);
}

void DeferredBatchNorm::after_forward(int, int64_t) {
  for (const auto& layer : layers_) layer->collect(false);
}

}  // namespace penstock::detail
