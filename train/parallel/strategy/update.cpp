// Update: of whole parameters.
#include "train/parallel/strategy/update.h"

#include <utility>

#include "train/tensor/ordered_norms.h"
#include "train/tensor/ordered_sum.h"
#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

/// As OptimizerContext::squared_norms for whole parameters, with the bits of pieces.
torch::Tensor exact_norms_of_whole(const TensorLists& lists) {
  TensorLists norms(lists.size());
  for (size_t list = 0; list < lists.size(); ++list)
    for (const auto& tensor : lists[list]) norms[list].push_back(folded_sum(block_sums(tensor)));
  return table_of(norms);
}

class WholeUpdate final : public Update {
 public:
  explicit WholeUpdate(const UpdateContext& context, UpdateThreads threads = {})
      : optimizer_(make_optimizer(context_of(context, threads))), run_(std::move(threads.run)) {}
  void step() override {
    if (run_)
      optimizer_->step_on(run_);
    else
      optimizer_->step();
  }
  Optimizer& optimizer() override { return *optimizer_; }
  torch::Tensor slot(size_t index, size_t parameter) override {
    return optimizer_->state().slots[index].tensors[parameter];
  }
  void load_slot(size_t index, const std::vector<torch::Tensor>& whole) override {
    const auto& own = optimizer_->state().slots[index].tensors;
    for (size_t i = 0; i < whole.size(); ++i) own[i].copy_(whole[i]);
  }

 private:
  static OptimizerContext context_of(const UpdateContext& update, const UpdateThreads& threads) {
    OptimizerContext context{values(update.trained), update.options, update.rate_factors};
    context.weight_decays = update.weight_decays;
    context.are_vectors = update.are_vectors;
    context.clip = update.clip;
    if (update.sum_over_parts) context.sum_over_model = update.sum_over_parts;
    if (update.is_exact) context.squared_norms = exact_norms_of_whole;
    if (threads.run) {
      context.parts = threads.parts;
      context.part_count = threads.count;
    }
    return context;
  }

  std::unique_ptr<Optimizer> optimizer_;
  std::function<void(const std::function<void(size_t)>&)> run_;  // empty: on the training thread
};

}  // namespace

std::vector<UpdatedPiece> Update::pieces(const std::vector<torch::Tensor>& trained) {
  std::vector<UpdatedPiece> pieces;
  for (size_t i = 0; i < trained.size(); ++i) {
    const auto& gradient = trained[i].grad();
    const bool has_memory = trained[i].storage().nbytes() > 0;
    pieces.push_back({i, 0, has_memory ? flattened(trained[i].detach()) : torch::Tensor(),
                      gradient.defined() ? flattened(gradient) : torch::Tensor()});
  }
  return pieces;
}

std::unique_ptr<Update> make_whole_update(const UpdateContext& context) {
  return std::make_unique<WholeUpdate>(context);
}

std::unique_ptr<Update> make_threaded_update(const UpdateContext& context, UpdateThreads threads) {
  return std::make_unique<WholeUpdate>(context, std::move(threads));
}

}  // namespace penstock::detail
