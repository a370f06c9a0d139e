// Local steps: a rank's own gradient, and the meeting of all ranks.
#include "train/parallel/sync/local_steps.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_zero.h>

#include <algorithm>
#include <optional>

#include "core/text.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/sync/pending_collectives.h"

namespace penstock::detail {
namespace {

class LocalSync final : public GradientSync {
 public:
  explicit LocalSync(const SyncContext& context) : ranks_(context.comm.world_size()) {
    for (const auto& [name, parameter] : context.trained) gradients_.push_back(parameter.grad());
  }
  void begin() override {
    if (!gradients_.empty()) at::_foreach_zero_(gradients_);
  }
  /// Backward has divided by the samples of all ranks.
  void finish() override {
    if (!gradients_.empty() && ranks_ > 1) at::_foreach_mul_(gradients_, ranks_);
  }
  bool defers_weight_gradients() const override { return true; }

 private:
  int ranks_;
  std::vector<torch::Tensor> gradients_;
};

class LocalUpdate final : public Update {
 public:
  LocalUpdate(const UpdateContext& context, const LocalSteps& steps)
      : steps_(steps),
        trained_(context.trained),
        comm_(context.comm),
        recorder_(context.recorder),
        inner_(make_whole_update(context)),
        buckets_(bucket_gradients(values(trained_), assign_buckets(bytes_of(values(trained_))), comm_)),
        works_(recorder_, AfterBackward::kAll) {
    for (const auto& [name, parameter] : trained_) {
      if (!steps_.takes_mean()) anchors_.push_back(parameter.detach().clone());
      if (steps_.is_nesterov) momenta_.push_back(torch::zeros_like(parameter.detach()));
    }
    alone_in_checkpoint_ = torch::zeros(
        {}, torch::dtype(torch::kInt64).device(trained_.empty() ? torch::kCPU : trained_.front().second.device()));
  }

  void step() override {
    if (alone() == 0) keep_anchors();
    inner_->step();
  }
  void share() override {
    works_.restart();
    alone_ = alone() + 1;
    if (alone() >= steps_.count) meet();
  }

  /// The sum of a bucket is under way while the next one is put together, and while the one before is used.
  void meet() override {
    if (alone() == 0) return;
    at::NoGradGuard no_grad;
    works_.restart();
    for (auto& bucket : buckets_) {
      for (const size_t i : bucket.members) give(i);
      works_.start([&] { return comm_.all_reduce_sum(bucket.flat); });
    }
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      works_.wait_for(bucket + 1);
      recorder_.mark(Phase::kCommunication);
      for (const size_t i : buckets_[bucket].members) take(i);
      recorder_.mark(Phase::kOptimizer);
    }
    alone_ = 0;
  }

  void restart() override {
    at::NoGradGuard no_grad;
    alone_ = 0;
    for (const auto& momentum : momenta_) momentum.zero_();
  }

  Optimizer& optimizer() override { return inner_->optimizer(); }
  torch::Tensor slot(size_t index, size_t parameter) override { return mean_of(inner_->slot(index, parameter)); }
  void load_slot(size_t index, const std::vector<torch::Tensor>& whole) override { inner_->load_slot(index, whole); }
  torch::Tensor agreed(const torch::Tensor& parameter) override {
    return alone() > 0 && is_trained(parameter) ? mean_of(parameter) : parameter;
  }

  RankLocalState rank_local_state() override {
    alone_in_checkpoint_.fill_(alone());
    alone_.reset();
    RankLocalState kept{"local-steps", {{"steps", alone_in_checkpoint_}}, {}};
    const auto add = [this](NamedTensors& list, const std::string& prefix, const std::vector<torch::Tensor>& tensors) {
      for (size_t i = 0; i < tensors.size(); ++i)
        list.emplace_back(concat(prefix, ".", trained_[i].first), tensors[i].detach());
    };
    add(kept.tensors, "model", values(trained_));
    for (const auto& slot : optimizer().state().slots) add(kept.tensors, "optimizer." + slot.name, slot.tensors);
    add(kept.common, "anchor", anchors_);
    add(kept.common, "momentum", momenta_);
    return kept;
  }

 private:
  /// Steps since all ranks had the same parameters.
  int64_t alone() {
    if (!alone_) alone_ = alone_in_checkpoint_.item<int64_t>();
    return *alone_;
  }

  bool is_trained(const torch::Tensor& parameter) const {
    return std::any_of(trained_.begin(), trained_.end(),
                       [&](const auto& item) { return item.second.is_alias_of(parameter); });
  }

  void keep_anchors() {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < anchors_.size(); ++i) anchors_[i].copy_(trained_[i].second);
  }

  /// What this rank adds to the sum, in the place of its gradient: its parameter, or how far it has come from A.
  void give(size_t i) {
    const auto& parameter = trained_[i].second;
    auto mine = parameter.grad();
    if (steps_.takes_mean())
      mine.copy_(parameter);
    else
      at::sub_out(mine, anchors_[i], parameter);
  }

  void take(size_t i) {
    auto parameter = trained_[i].second.detach();
    const auto sum = trained_[i].second.grad();
    sum.div_(comm_.world_size());
    if (steps_.takes_mean()) {
      parameter.copy_(sum);
      return;
    }
    if (steps_.is_nesterov) {
      momenta_[i].mul_(steps_.momentum).add_(sum);
      sum.add_(momenta_[i], steps_.momentum);
    }
    at::sub_out(parameter, anchors_[i], sum, steps_.rate);
  }

  torch::Tensor mean_of(const torch::Tensor& tensor) {
    if (comm_.world_size() == 1) return tensor;
    at::NoGradGuard no_grad;
    auto mean = tensor.detach().clone(at::MemoryFormat::Contiguous);
    comm_.all_reduce_sum(mean)->wait();
    return mean.div_(comm_.world_size());
  }

  LocalSteps steps_;
  NamedTensors trained_;
  Comm& comm_;
  Recorder& recorder_;
  std::unique_ptr<Update> inner_;
  std::vector<Bucket> buckets_;
  PendingCollectives works_;
  std::vector<torch::Tensor> anchors_, momenta_;  // one entry per parameter; empty: the outer optimiser has none
  std::optional<int64_t> alone_ = 0;              // none: somebody may have written to the tensor
  torch::Tensor alone_in_checkpoint_;             // i64 scalar
};

}  // namespace

std::unique_ptr<GradientSync> make_local_sync(const SyncContext& context) {
  return std::make_unique<LocalSync>(context);
}

std::unique_ptr<Update> make_local_update(const UpdateContext& context, const LocalSteps& steps) {
  return std::make_unique<LocalUpdate>(context, steps);
}

}  // namespace penstock::detail
