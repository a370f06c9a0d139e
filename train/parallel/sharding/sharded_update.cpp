// Sharded update: slices of buckets change, and are gathered where parameters stay whole.
#include "train/parallel/sharding/sharded_update.h"

#include <utility>

#include "train/parallel/strategy/transfer.h"
#include "train/parallel/sync/pending_collectives.h"
#include "train/tensor/ordered_norms.h"
#include "train/tensor/ordered_sum.h"
#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

/// The update of this rank's slices.
class ShardedUpdate final : public Update {
 public:
  ShardedUpdate(const UpdateContext& context, std::vector<ShardedBucket> buckets, bool gathers)
      : comm_(context.comm),
        trained_(values(context.trained)),
        buckets_(std::move(buckets)),
        pieces_(pieces_of(buckets_, trained_, comm_.rank())),
        gathers_(gathers),
        works_(context.recorder, AfterBackward::kAll) {
    OptimizerContext pieces{.parameters = {}, .options = context.options};
    std::vector<int64_t> parameters, firsts;
    for (const auto& piece : pieces_) {
      parts_.push_back(buckets_[piece.bucket].slice.narrow(0, piece.slice_offset, piece.count));
      if (!context.rate_factors.empty()) pieces.rate_factors.push_back(context.rate_factors[piece.parameter]);
      if (!context.weight_decays.empty()) pieces.weight_decays.push_back(context.weight_decays[piece.parameter]);
      parameters.push_back(static_cast<int64_t>(piece.parameter));
      firsts.push_back(piece.first);
    }
    pieces.parameters = parts_;
    if (!trained_.empty()) is_first_piece_ = torch::tensor(firsts).to(trained_.front().device()).eq(0);
    if (!trained_.empty()) parameter_of_piece_ = torch::tensor(parameters).to(trained_.front().device());
    pieces.squared_norms = [this, is_exact = context.is_exact](const TensorLists& lists) {
      return is_exact ? exact_norms(lists) : sum_of_pieces(squared_norms_of_whole(lists));
    };
    pieces.clip = context.clip;
    if (context.sum_over_parts)
      pieces.sum_over_model = [this, sum = context.sum_over_parts](const torch::Tensor& norms) {
        return sum(of_parameters(norms));
      };
    optimizer_ = make_optimizer(pieces);
  }

  void step() override {
    take_gradients();
    optimizer_->step();
  }

  torch::Tensor overflow() override {
    take_gradients();
    return optimizer_->overflow();
  }

  void share() override {
    if (!gathers_) return;
    at::NoGradGuard no_grad;
    works_.restart();
    for (auto& bucket : buckets_) works_.start([&] { return comm_.all_gather_into(bucket.whole, bucket.slice); });
    works_.wait_for(works_.count());
  }

  std::vector<UpdatedPiece> pieces(const std::vector<torch::Tensor>&) override {
    std::vector<UpdatedPiece> pieces;
    for (size_t i = 0; i < pieces_.size(); ++i)
      pieces.push_back({pieces_[i].parameter, pieces_[i].first, parts_[i].detach(), gradient_of(pieces_[i])});
    return pieces;
  }

  Optimizer& optimizer() override { return *optimizer_; }

  torch::Tensor slot(size_t index, size_t parameter) override {
    at::NoGradGuard no_grad;
    const auto& like = trained_[parameter];
    const bool is_first = comm_.rank() == 0;
    const auto whole = is_first ? torch::empty_like(like) : torch::Tensor();
    for (int rank = 0; rank < comm_.world_size(); ++rank) {
      const auto pieces = pieces_of(buckets_, trained_, rank);
      for (size_t i = 0; i < pieces.size(); ++i) {
        const auto& piece = pieces[i];
        if (piece.parameter != parameter) continue;
        const auto own = rank == comm_.rank() ? optimizer_->state().slots[index].tensors[i]
                                              : torch::empty({piece.count}, like.options().device(torch::kMeta));
        const auto part = transfer(comm_, rank, own, like.device(), "the optimiser's state");
        if (is_first) flattened(whole).narrow(0, piece.first, piece.count).copy_(part);
      }
    }
    return whole;
  }

  void load_slot(size_t index, const std::vector<torch::Tensor>& whole) override {
    at::NoGradGuard no_grad;
    const auto& own = optimizer_->state().slots[index].tensors;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      // With the parameter's strides, in which the piece counts.
      const auto like = torch::empty_like(trained_[pieces_[i].parameter]).copy_(whole[pieces_[i].parameter]);
      own[i].copy_(flattened(like).narrow(0, pieces_[i].first, pieces_[i].count));
    }
  }

 private:
  /// The sums over all pieces of the parameter to which each of this rank's belongs. A parameter lies in one bucket, so
  /// that this rank has one piece of it at most.
  torch::Tensor sum_of_pieces(const torch::Tensor& of_pieces) const {
    if (trained_.empty()) return of_pieces;
    const auto device = trained_.front().device();
    auto sums =
        torch::zeros({static_cast<int64_t>(trained_.size()), of_pieces.size(1)}, of_pieces.options().device(device));
    sums.index_copy_(0, parameter_of_piece_, of_pieces.to(device));
    comm_.all_reduce_sum(sums)->wait();
    return sums.index_select(0, parameter_of_piece_);
  }

  /// What ranks know of the parameters of which they have pieces, as one entry per trained parameter at every rank. The
  /// rank with the first piece says it; x + 0 is x.
  torch::Tensor of_parameters(const torch::Tensor& of_pieces) const {
    if (trained_.empty()) return of_pieces;
    const auto device = trained_.front().device();
    auto all = torch::zeros({static_cast<int64_t>(trained_.size())}, of_pieces.options().device(device));
    all.index_copy_(0, parameter_of_piece_, at::where(is_first_piece_, of_pieces.to(device), 0.0));
    comm_.all_reduce_sum(all)->wait();
    return all;
  }

  /// Each block lies in the piece of one rank, and x + 0 is x in any order. Sends 1 / 16 of the bytes of the parameters
  /// for two lists of f32.
  torch::Tensor exact_norms(const TensorLists& lists) const {
    std::vector<int64_t> first_blocks{0};  // one entry per parameter, and the end
    for (const auto& parameter : trained_) first_blocks.push_back(first_blocks.back() + block_count(parameter.numel()));
    TensorLists norms(lists.size());
    if (trained_.empty()) return table_of(norms);
    auto blocks = torch::zeros({static_cast<int64_t>(lists.size()), first_blocks.back()},
                               torch::dtype(torch::kFloat64).device(trained_.front().device()));
    const auto rows = blocks.unbind();
    for (size_t list = 0; list < lists.size(); ++list)
      for (size_t i = 0; i < pieces_.size(); ++i) {
        const auto own = block_sums(lists[list][i]);
        const int64_t first = first_blocks[pieces_[i].parameter] + pieces_[i].first / kVectorAlignment;
        rows[list].narrow(0, first, own.numel()).copy_(own);
      }
    comm_.all_reduce_sum(blocks)->wait();
    for (size_t list = 0; list < lists.size(); ++list)
      for (const auto& piece : pieces_)
        norms[list].push_back(
            folded_sum(rows[list].slice(0, first_blocks[piece.parameter], first_blocks[piece.parameter + 1])));
    return table_of(norms);
  }

  void take_gradients() {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < pieces_.size(); ++i) parts_[i].mutable_grad() = gradient_of(pieces_[i]);
  }

  torch::Tensor gradient_of(const Piece& piece) const {
    const auto& slice = buckets_[piece.bucket].gradient;
    if (slice.defined()) return slice.narrow(0, piece.slice_offset, piece.count);
    return flattened(trained_[piece.parameter].grad()).narrow(0, piece.first, piece.count);
  }

  Comm& comm_;
  std::vector<torch::Tensor> trained_;
  std::vector<ShardedBucket> buckets_;
  std::vector<Piece> pieces_;
  std::vector<torch::Tensor> parts_;  // one entry per piece: a view of its bucket's slice
  bool gathers_;
  PendingCollectives works_;          // the gathers of a step
  torch::Tensor parameter_of_piece_;  // i64, one entry per piece
  torch::Tensor is_first_piece_;      // bool, one entry per piece: it has the parameter's first element
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

std::unique_ptr<Update> make_sharded_update(const UpdateContext& context, std::vector<ShardedBucket> buckets,
                                            bool gathers) {
  return std::make_unique<ShardedUpdate>(context, std::move(buckets), gathers);
}

}  // namespace penstock::detail
