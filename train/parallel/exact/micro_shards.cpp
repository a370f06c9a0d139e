// MicroShards: buffers are put aside, generators are set.
#include "train/parallel/exact/micro_shards.h"

#include <ATen/Context.h>

#include <mutex>

#include "core/error.h"
#include "core/rng.h"
#include "train/parallel/replicas/replicas.h"
#include "train/tensor/ordered_sum.h"

namespace penstock::detail {

MicroShards::MicroShards(ModelPart& part, Comm& data, Replicas* replicas, int count, uint64_t seed,
                         const torch::Device& device, bool shares_generator)
    : data_(data),
      replicas_(replicas),
      own_count_(count / data.world_size()),
      replica_count_(replicas ? replicas->count() : 1),
      seed_(seed),
      device_(device),
      shares_generator_(shares_generator),
      buffers_(values(part.buffers())),
      random_(device) {
  for (const auto& buffer : buffers_) element_count_ += buffer.numel();
  if (!buffers_.empty())
    changes_ = torch::zeros({own_count_, element_count_ + 1}, torch::dtype(torch::kFloat64).device(device));
  if (!shares_generator_) part.before_blocks([this](size_t block) { enter(block); });
}

void MicroShards::begin(const DeviceBatch& batch) {
  epoch_ = batch.epoch;
  batch_ = batch.index;
  if (buffers_.empty()) return;
  changes_.zero_();
  before_.clear();
  for (const auto& buffer : buffers_) before_.push_back(buffer.detach());
}

void MicroShards::before_forward(int micro_batch) {
  micro_batch_ = micro_batch;
  if (shares_generator_) random_.keep();
  // Another memory and not another value, as in RecomputedForward.
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].set_data(before_[i].clone());
}

void MicroShards::after_forward(int micro_batch, int64_t rows) {
  if (shares_generator_ && !random_.is_now())
    throw config_error(
        "--exact: the model draws random numbers, as dropout does, and all threads of this process draw from the same; "
        "expected ranks that are processes (--hosting processes, and not --mode dp)");
  if (buffers_.empty()) return;
  at::NoGradGuard no_grad;
  if (!replicas_ && rows > 0) put_aside(micro_batch, buffers_);
  for (int replica = 0; replicas_ && replica < replica_count_; ++replica)
    if (replicas_->row_count(replica) > 0)
      put_aside(int64_t{micro_batch} * replica_count_ + replica, replicas_->buffers(replica));
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].set_data(before_[i]);
}

/// Each chunk of a part changes other elements, so that the changes of all chunks add up.
void MicroShards::put_aside(int64_t shard, const std::vector<torch::Tensor>& buffers) {
  const auto row = changes_[shard];
  int64_t first = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto now = buffers[i].detach().to(row.device(), torch::kFloat64), before = before_[i].to(torch::kFloat64);
    row.narrow(0, first, now.numel()).add_((now - before).flatten());
    first += now.numel();
  }
  row[first].fill_(1);
}

void MicroShards::finish() {
  if (buffers_.empty()) return;
  at::NoGradGuard no_grad;
  auto sum = pairwise_sum(changes_);
  if (data_.world_size() > 1) sum = pairwise_sum(data_.all_gather(sum));
  const double count = sum[element_count_].item<double>();
  if (count == 0) return;
  int64_t first = 0;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    auto change = sum.narrow(0, first, before_[i].numel()).view_as(before_[i]) / count;
    if (!before_[i].is_floating_point()) change.round_();
    before_[i].copy_(before_[i].to(torch::kFloat64) + change);
    first += before_[i].numel();
  }
}

void MicroShards::enter(size_t block) const {
  const int shard = data_.rank() * own_count_ + micro_batch_;
  const auto words = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(shard),
                                 static_cast<uint32_t>(batch_), static_cast<uint32_t>(epoch_)},
                                {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  auto generator = at::globalContext().defaultGenerator(device_);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(words[0] | uint64_t{words[1]} << 32);
}

}  // namespace penstock::detail
