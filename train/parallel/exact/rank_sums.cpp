// RankSums: one collective per flat tensor, and additions where it was a gather.
#include "train/parallel/exact/rank_sums.h"

#include <utility>

#include "train/tensor/ordered_sum.h"

namespace penstock::detail {

void RankSums::start(torch::Tensor flat, torch::Tensor sum) {
  if (!comm_.adds_pairwise(flat)) {
    auto all = torch::empty({comm_.world_size() * flat.numel()}, flat.options());
    works_.start([&] { return comm_.all_gather_into(all, flat); }, flat);
    gathered_.push_back({works_.count(), std::move(all), std::move(sum)});
  } else if (sum.is_same(flat)) {
    works_.start([&] { return comm_.all_reduce_sum(flat); }, flat);
  } else {
    works_.start([&] { return comm_.reduce_scatter_sum(sum, flat); }, flat);
  }
}

void RankSums::land() {
  at::NoGradGuard no_grad;
  for (; !gathered_.empty() && gathered_.front().work_count <= works_.waited_count(); gathered_.pop_front()) {
    const auto& [work_count, all, sum] = gathered_.front();
    const auto rows = all.view({comm_.world_size(), -1});
    const bool is_slice = sum.numel() < rows.size(1);
    sum.copy_(pairwise_sum(rows.narrow(1, is_slice ? comm_.rank() * sum.numel() : 0, sum.numel())));
  }
}

std::vector<torch::Tensor> RankSums::gathered() const {
  std::vector<torch::Tensor> list;
  for (const auto& one : gathered_) list.push_back(one.all);
  return list;
}

}  // namespace penstock::detail
