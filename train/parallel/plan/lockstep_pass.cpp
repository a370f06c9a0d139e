// Lockstep pass: units, and the layers of their blocks.
#include "train/parallel/plan/lockstep_pass.h"

#include <optional>
#include <utility>

namespace penstock::detail {
namespace {

using Collective = MachineCosts::Collective;

class LockstepPass {
 public:
  explicit LockstepPass(RankTasks& tasks)
      : tasks_(tasks),
        step_(tasks.step()),
        ranks_(step_.ranks_with(0)),
        units_(parameter_units(step_.shape, step_.parameters)),
        gathers_(units_.size()),
        skew_(units_.front().bytes() > 0 ? tasks.skew() : 0),
        last_(ranks_.size()) {
    gradients_.pending.resize(ranks_.size());
    gradients_.arriving.resize(ranks_.size());
    for (const int rank : ranks_) last_[static_cast<size_t>(rank)] = tasks_.wait_for(rank, {});
  }

  Gradients add() {
    for (size_t unit = 0; unit < units_.size(); ++unit) forward(unit);
    for (size_t unit = units_.size(); unit-- > 0;) backward(unit);
    return std::move(gradients_);
  }

 private:
  void forward(size_t index) {
    wait_for_unit(index);
    if (index + 1 < units_.size()) start_gather(index + 1);
    const auto [first, end] = units_[index].blocks;
    for (size_t block = first; block < end; ++block) {
      auto work = tasks_.block_work(Operation::Kind::kForward, block, 0, /*is_last=*/true);
      if (block + 1 == step_.block_count()) work += tasks_.loss_work();
      compute(work);
      sync_layers(block);
    }
    if (index + 1 < units_.size()) gathers_[index].reset();  // backward begins with the last one
  }

  void backward(size_t index) {
    wait_for_unit(index);
    if (index > 0) start_gather(index - 1);
    const auto [first, end] = units_[index].blocks;
    for (size_t block = end; block-- > first;) {
      compute(tasks_.block_work(Operation::Kind::kBackward, block, 0, /*is_last=*/true) + packing_work(step_, block));
      sync_layers(block);
      for (const int rank : ranks_)
        gradients_.pending[static_cast<size_t>(rank)][block] = last_[static_cast<size_t>(rank)];
    }
    if (units_[index].trained_bytes > 0) scatter(index);
  }

  void start_gather(size_t index) {
    auto& gather = gathers_[index];
    if (gather) return;
    gather.emplace();
    for (const double bytes : {units_[index].trained_bytes, units_[index].frozen_bytes}) {
      if (bytes == 0) continue;
      const auto done = tasks_.collective(Collective::kRingGather, ranks_, bytes, last_);
      gather->insert(gather->end(), done.begin(), done.end());
    }
  }

  void wait_for_unit(size_t index) {
    start_gather(index);
    if (!gathers_[index]->empty()) wait(*gathers_[index]);
  }

  /// Gradients go into a bucket first. Ranks meet at every gather; what they lose by not coming to it at once counts
  /// at the last scatter.
  void scatter(size_t index) {
    compute(step_.costs.touch * units_[index].trained_bytes);
    const double more = index == 0 ? skew_ : 0;
    const auto done = tasks_.collective(Collective::kScatter, ranks_, units_[index].trained_bytes, last_, more);
    for (auto& arriving : gradients_.arriving) arriving.insert(arriving.end(), done.begin(), done.end());
  }

  /// A gather of a few numbers for each layer, whose bytes take no time. It is in the stream of messages, because
  /// no sum of gradients waits for them.
  void sync_layers(size_t block) {
    if (!step_.shape.syncs()) return;
    for (int layer = 0; layer < step_.shape.synced_layers[block]; ++layer)
      wait(tasks_.collective(Collective::kRingGather, ranks_, /*bytes=*/0, last_, tasks_.gather_skew(), kMessages));
  }

  void compute(const Work& work) {
    for (const int rank : ranks_) last_[static_cast<size_t>(rank)] = tasks_.compute(rank, work);
  }
  void wait(const std::vector<size_t>& done) {
    for (const int rank : ranks_) last_[static_cast<size_t>(rank)] = tasks_.wait_for(rank, done);
  }

  RankTasks& tasks_;
  const StepCase& step_;
  std::vector<int> ranks_;
  std::vector<ParameterUnit> units_;
  std::vector<std::optional<std::vector<size_t>>> gathers_;  // one entry per unit; none: its parameters are not here
  double skew_;                                              // seconds
  std::vector<size_t> last_;                                 // one entry per rank: its last task
  Gradients gradients_;
};

}  // namespace

Gradients add_lockstep_pass(RankTasks& tasks) { return LockstepPass(tasks).add(); }

}  // namespace penstock::detail
