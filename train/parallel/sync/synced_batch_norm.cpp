// SyncedBatchNorm: finds the layers of a model.
#include "train/parallel/sync/synced_batch_norm.h"

#include "train/nn/batch_norm.h"
#include "train/nn/model.h"

namespace penstock::detail {

SyncedBatchNorm::SyncedBatchNorm(const Model& model, Comm& data, Recorder& recorder, bool is_on)
    : data_(data), recorder_(recorder), works_(recorder, AfterBackward::kNone) {
  if (!is_on) return;
  for (const auto& module : model.modules(/*include_self=*/false))
    if (auto layer = std::dynamic_pointer_cast<BatchNorm2dImpl>(module)) layers_.push_back(std::move(layer));
  for (const auto& layer : layers_) layer->gather_by([this](const auto& mine) { return gather(mine); });
}

torch::Tensor SyncedBatchNorm::gather(const torch::Tensor& mine) {
  const Recorder::Communication communication(recorder_);
  auto sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), data_.world_size());
  auto all = torch::empty(sizes, mine.options());
  works_.restart();
  works_.start([&] { return data_.all_gather_into(all, mine); });
  works_.wait_for(1);
  return all;
}

SyncedBatchNorm::~SyncedBatchNorm() {
  for (const auto& layer : layers_) layer->gather_by(nullptr);
}

}  // namespace penstock::detail
