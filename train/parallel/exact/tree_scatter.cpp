// TreeScatter: leaves are taken, and the last one of a bucket sends its sums.
#include "train/parallel/exact/tree_scatter.h"

#include <algorithm>
#include <utility>

#include "train/tensor/ordered_norms.h"
#include "train/tensor/storage.h"

namespace penstock::detail {

TreeScatter::TreeScatter(std::vector<torch::Tensor> parameters, std::vector<ShardedBucket> buckets, Comm& comm,
                         PendingCollectives& works, int leaf_count)
    : buckets_(std::move(buckets)),
      works_(works),
      leaves_(std::move(parameters), leaf_count),
      ranks_(comm, works),
      leaf_count_(leaf_count) {}

void TreeScatter::reset() {
  leaves_.reset();
  next_leaf_.assign(buckets_.size(), 0);
}

void TreeScatter::start(size_t index) {
  ranks_.land();
  const auto& bucket = buckets_[index];
  const int leaf = next_leaf_[index]++;
  const bool is_last = leaf + 1 == leaf_count_;
  const auto flat = is_last ? torch::zeros({bucket.whole.numel()}, bucket.whole.options()) : torch::Tensor();
  for (size_t k = 0; k < bucket.members.size(); ++k) {
    const size_t i = bucket.members[k];
    const auto& parameter = leaves_.parameters()[i];
    const auto place = is_last ? flat.as_strided(parameter.sizes(), parameter.strides(), bucket.offsets[k]) : flat;
    leaves_.take(i, leaf, place);
    if (is_last) leaves_.write(i, place);
  }
  if (is_last) ranks_.start(flat, bucket.gradient);
  note_peak();
}

std::vector<torch::Tensor> TreeScatter::buffers() const {
  auto list = works_.kept();
  for (const auto& bucket : buckets_) list.push_back(bucket.gradient);
  return list;
}

void TreeScatter::note_peak() {
  auto alive = buffers();
  for (auto& gathered : ranks_.gathered()) alive.push_back(std::move(gathered));
  for (const auto& parameter : leaves_.parameters()) alive.push_back(parameter.grad());
  peak_bytes_ = std::max(peak_bytes_, storage_bytes(alive) + leaves_.bytes());
}

Passes tree_passes(const ModelPart& part, Comm& comm, int leaf_count) {
  if (leaf_count == 0) return {};
  return {.count = leaf_count,
          .alignment = kVectorAlignment,
          .make_gradients = [trained = values(part.trained()), &comm, leaf_count](
                                const std::vector<ShardedBucket>& buckets, PendingCollectives& works) {
            return std::make_unique<TreeScatter>(trained, buckets, comm, works, leaf_count);
          }};
}

}  // namespace penstock::detail
