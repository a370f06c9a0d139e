// SyncedNorms: finds the layers of a model.
#include "train/parallel/sync/synced_batch_norm.h"

#include "core/error.h"
#include "core/text.h"
#include "train/nn/batch_norm.h"
#include "train/nn/model.h"
#include "train/parallel/modes/mode_keys.h"

namespace penstock::detail {

SyncedNorms::SyncedNorms(const Model& model, Comm& data, Recorder& recorder)
    : data_(data), recorder_(recorder), works_(recorder, AfterBackward::kNone) {
  for (const auto& module : model.modules(/*include_self=*/false))
    if (auto layer = std::dynamic_pointer_cast<BatchNorm2dImpl>(module)) layers_.push_back(std::move(layer));
  for (const auto& layer : layers_) layer->gather_by([this](const auto& mine) { return gather(mine); });
}

torch::Tensor SyncedNorms::gather(const torch::Tensor& mine) {
  const Recorder::Communication communication(recorder_);
  auto sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), data_.world_size());
  auto all = torch::empty(sizes, mine.options());
  works_.restart();
  works_.start([&] { return data_.all_gather_into(all, mine); });
  works_.wait_for(1);
  return all;
}

SyncedNorms::~SyncedNorms() {
  for (const auto& layer : layers_) layer->gather_by(nullptr);
}

void check_sync(const Spec& spec, const Model& model, const Mesh& mesh) {
  if (!syncs_batch_norm(spec, mesh.shards)) return;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const auto& module = *item.value();
    if (module.as<torch::nn::BatchNorm1dImpl>() == nullptr && module.as<torch::nn::BatchNorm2dImpl>() == nullptr &&
        module.as<torch::nn::BatchNorm3dImpl>() == nullptr)
      continue;
    if (module.as<penstock::BatchNorm2dImpl>() != nullptr) continue;
    throw config_error(concat(flag(spec), ": sync-bn is true, but ", item.key(),
                              " is a BatchNorm of LibTorch, which sees one ",
                              "rank alone; expected penstock::BatchNorm2d (train/nn/batch_norm.h)"));
  }
}

}  // namespace penstock::detail
