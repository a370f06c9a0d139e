// Update tasks: buckets, compression and slices.
#include "train/parallel/plan/update_tasks.h"

#include <algorithm>
#include <utility>

namespace penstock::detail {
namespace {

using Collective = MachineCosts::Collective;

class UpdateTasks {
 public:
  UpdateTasks(RankTasks& tasks, const Gradients& gradients)
      : tasks_(tasks), step_(tasks.step()), shape_(step_.shape), gradients_(gradients), sums_(gradients.arriving) {
    sums_.resize(static_cast<size_t>(step_.rank_count()));
  }

  std::vector<size_t> add() {
    if (step_.has_copies() && shape_.plan.sharded.stage() < 3 && shape_.local_steps() == 0)
      for (int pipe_rank = 0; pipe_rank < shape_.plan.mesh.pipe; ++pipe_rank) add_sums(pipe_rank);
    if (!shape_.plan.compression.name.empty()) add_second_round();
    for (int rank = 0; rank < step_.rank_count(); ++rank)
      ends_.push_back(tasks_.compute(rank, update_work(rank), sums_[static_cast<size_t>(rank)]));
    if (gradients_.meets) meet();
    if (shape_.plan.sharded.stage() == 1 || shape_.plan.sharded.stage() == 2)
      for (int pipe_rank = 0; pipe_rank < shape_.plan.mesh.pipe; ++pipe_rank) add_gathers(pipe_rank);
    return ends_;
  }

 private:
  /// What PowerSGD sends lies outside of the memory that ranks share.
  Collective sum_kind() const {
    if (shape_.plan.compression.name == "fp16") return Collective::kHalfSum;
    if (!shape_.plan.compression.name.empty()) return Collective::kRingSum;
    return shape_.plan.sharded.stage() == 2 ? Collective::kScatter : Collective::kSum;
  }

  void add_sums(int pipe_rank) {
    const auto ranks = step_.ranks_with(pipe_rank);
    double skew = tasks_.skew();  // they come to the first sum one after the other
    for (const auto& bucket : gradient_buckets(shape_, pipe_rank, step_.parameters)) {
      std::vector<size_t> after;
      for (const int rank : ranks)
        for (const size_t block : bucket.blocks)
          after.push_back(gradients_.pending[static_cast<size_t>(rank)].at(block));
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      wait_in_all(ranks, tasks_.collective(sum_kind(), ranks, bucket.sent_bytes, after, std::exchange(skew, 0)));
    }
  }

  void wait_in_all(const std::vector<int>& ranks, const std::vector<size_t>& done) {
    for (const int rank : ranks) {
      auto& own = sums_[static_cast<size_t>(rank)];
      own.insert(own.end(), done.begin(), done.end());
    }
  }

  /// When the first sums have come; 16 bits need no second ones.
  void add_second_round() {
    const auto ranks = step_.ranks_with(0);
    const Work turn = step_.costs.compressed(shape_.plan.compression).turn;
    std::vector<size_t> after;
    for (const int rank : ranks) {
      auto& own = sums_[static_cast<size_t>(rank)];
      after.push_back(tasks_.compute(rank, turn * step_.trained_bytes(rank), std::exchange(own, {})));
    }
    for (const auto& bucket : gradient_buckets(shape_, 0, step_.parameters))
      if (bucket.second_bytes > 0) wait_in_all(ranks, tasks_.collective(sum_kind(), ranks, bucket.second_bytes, after));
  }

  Work update_work(int rank) const {
    const double bytes = step_.trained_bytes(rank),
                 share = shape_.plan.sharded.stage() > 0 ? 1.0 / shape_.plan.mesh.data : 1;
    Work work;
    if (!shape_.plan.compression.name.empty()) work += step_.costs.compressed(shape_.plan.compression).finish * bytes;
    if (step_.is_emulated()) return work;
    if (shape_.plan.sharded.stage() == 2) work += step_.costs.touch * bytes;  // gradients into buckets
    if (shape_.local_steps() > 0) work += step_.costs.touch * bytes;          // gradients become those of the own rows
    return work + step_.costs.update * (bytes * share);
  }

  void add_gathers(int pipe_rank) {
    const auto ranks = step_.ranks_with(pipe_rank);
    std::vector<size_t> after, done;
    for (const int rank : ranks) after.push_back(ends_[static_cast<size_t>(rank)]);
    for (const auto& bucket : gradient_buckets(shape_, pipe_rank, step_.parameters)) {
      const auto gathered = tasks_.collective(Collective::kGather, ranks, bucket.bytes, after);
      done.insert(done.end(), gathered.begin(), gathered.end());
    }
    for (const int rank : ranks) ends_[static_cast<size_t>(rank)] = tasks_.wait_for(rank, done);
  }

  /// Each rank puts its parameters where its gradients were, and takes the mean or an outer step from there.
  void meet() {
    const auto ranks = step_.ranks_with(0);
    const Work moved = step_.is_emulated() ? Work{} : step_.costs.touch * step_.trained_bytes(0);
    std::vector<size_t> given, summed;
    for (const int rank : ranks) given.push_back(tasks_.compute(rank, moved, {ends_[static_cast<size_t>(rank)]}));
    double skew = tasks_.skew();
    for (const auto& bucket : gradient_buckets(shape_, 0, step_.parameters)) {
      const auto sum = tasks_.collective(Collective::kSum, ranks, bucket.bytes, given, std::exchange(skew, 0));
      summed.insert(summed.end(), sum.begin(), sum.end());
    }
    for (const int rank : ranks)
      ends_[static_cast<size_t>(rank)] = tasks_.compute(rank, moved * (1.0 + shape_.plan.local->slots()), summed);
  }

  RankTasks& tasks_;
  const StepCase& step_;
  const StepShape& shape_;
  const Gradients& gradients_;
  std::vector<std::vector<size_t>> sums_;  // one entry per rank, as of the next: what it waits for
  std::vector<size_t> ends_;
};

}  // namespace

std::vector<size_t> add_update(RankTasks& tasks, const Gradients& gradients) {
  return UpdateTasks(tasks, gradients).add();
}

Work packing_work(const StepCase& step, size_t block) {
  const auto& compression = step.shape.plan.compression;
  if (compression.name.empty()) return {};
  return step.costs.compressed(compression).start * step.trained_bytes_of_block(block);
}

}  // namespace penstock::detail
