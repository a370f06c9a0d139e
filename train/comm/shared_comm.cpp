// SharedComm: tensors of allocate() go to the SharedGroup, messages to SharedMessages, the others to the inner Comm.
#include "train/comm/shared_comm.h"

#include <utility>
#include <vector>

#include "core/text.h"
#include "train/comm/shared_group.h"
#include "train/comm/shared_messages.h"

namespace penstock::detail {
namespace {

class SharedWork final : public Comm::Work {
 public:
  SharedWork(std::string operation, SharedGroup::Result result, std::shared_ptr<FailureReport> failure_report)
      : operation_(std::move(operation)), result_(std::move(result)), failure_report_(std::move(failure_report)) {}
  void wait() override {
    if (result_.valid()) under_way_ms_ = failure_report_->guarded(operation_, [&] { return result_.get(); });
  }
  std::optional<double> under_way_ms() override {
    return result_.valid() ? std::nullopt : std::optional(under_way_ms_);
  }

 private:
  std::string operation_;
  SharedGroup::Result result_;  // invalid: it was waited for
  std::shared_ptr<FailureReport> failure_report_;
  double under_way_ms_ = 0;
};

class SharedMessageWork final : public Comm::Work {
 public:
  /// `peer` is a rank of the run.
  SharedMessageWork(std::string operation, SharedMessages& messages, SharedMessages::Handle transfer,
                    std::shared_ptr<FailureReport> failure_report, int peer)
      : operation_(std::move(operation)),
        messages_(messages),
        transfer_(std::move(transfer)),
        failure_report_(std::move(failure_report)),
        peer_(peer) {}
  void wait() override {
    failure_report_->guarded(
        operation_, [&] { messages_.wait(*transfer_, failure_report_->seconds()); }, peer_);
  }

 private:
  std::string operation_;
  SharedMessages& messages_;
  SharedMessages::Handle transfer_;
  std::shared_ptr<FailureReport> failure_report_;
  int peer_;
};

class SharedComm final : public Comm {
 public:
  SharedComm(std::unique_ptr<Comm> inner, std::unique_ptr<SharedGroup> group,
             std::shared_ptr<FailureReport> failure_report, std::optional<int> part_of)
      : inner_(std::move(inner)),
        group_(std::move(group)),
        messages_(SharedMessages::meet(*inner_, *group_)),
        failure_report_(std::move(failure_report)),
        is_part_(part_of.has_value()) {
    const int own = part_of.value_or(inner_->rank());
    const auto all = inner_->all_gather(torch::tensor({own}, torch::kInt64));
    for (int rank = 0; rank < inner_->world_size(); ++rank)
      world_ranks_.push_back(static_cast<int>(all[rank].item<int64_t>()));
  }

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  std::string backend() const override { return inner_->backend() + " and shared memory"; }

  torch::Tensor allocate(int64_t count, const torch::TensorOptions& options) override {
    auto tensor = group_->allocate(count, options);
    return tensor.defined() ? tensor : inner_->allocate(count, options);
  }
  bool adds_pairwise(const torch::Tensor& tensor) const override {
    return group_->holds(tensor) || inner_->adds_pairwise(tensor);
  }

  std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) override {
    if (!group_->holds(tensor)) return inner_->all_reduce_sum(tensor);
    return started("all_reduce", [&] { return group_->all_reduce_sum(tensor, failure_report_->seconds()); });
  }
  std::unique_ptr<Work> reduce_scatter_sum(torch::Tensor& mine, torch::Tensor& all) override {
    return inner_->reduce_scatter_sum(mine, all);
  }
  void broadcast(torch::Tensor& tensor, int root) override { inner_->broadcast(tensor, root); }
  torch::Tensor all_gather(const torch::Tensor& tensor) override { return inner_->all_gather(tensor); }
  std::unique_ptr<Work> all_gather_into(torch::Tensor& all, const torch::Tensor& mine) override {
    if (!group_->holds(all)) return inner_->all_gather_into(all, mine);
    return started("all_gather", [&] { return group_->all_gather_into(all, mine, failure_report_->seconds()); });
  }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Work> send(const torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    if (!goes_shared(tensor)) return inner_->send(tensor, peer, tag, what);
    return message(concat("sending ", what, " to rank ", world_rank(peer)), peer,
                   [&] { return messages_->send(tensor, peer, tag); });
  }
  std::unique_ptr<Work> receive(torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    if (!goes_shared(tensor)) return inner_->receive(tensor, peer, tag, what);
    return message(concat("waiting for ", what, " from rank ", world_rank(peer)), peer,
                   [&] { return messages_->receive(tensor, peer, tag); });
  }
  std::unique_ptr<Comm> split(int color) override {
    auto part = inner_->split(color);
    return part->world_size() == 1 ? std::move(part)
                                   : make_shared_comm(std::move(part), failure_report_, world_rank(rank()));
  }
  void at_step(int64_t step) override { inner_->at_step(step); }
  void abort(const std::string& reason) override { inner_->abort(reason); }

 private:
  template <class Start>
  std::unique_ptr<Work> started(const std::string& operation, const Start& start) {
    return std::make_unique<SharedWork>(operation, failure_report_->collective(operation, is_part_, start),
                                        failure_report_);
  }

  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  bool goes_shared(const torch::Tensor& tensor) const { return messages_ && SharedMessages::takes(tensor.nbytes()); }

  template <class Start>
  std::unique_ptr<Work> message(const std::string& operation, int peer, const Start& start) {
    auto transfer = failure_report_->guarded(operation, start, world_rank(peer));
    return std::make_unique<SharedMessageWork>(operation, *messages_, std::move(transfer), failure_report_,
                                               world_rank(peer));
  }

  std::unique_ptr<Comm> inner_;
  std::unique_ptr<SharedGroup> group_;
  std::unique_ptr<SharedMessages> messages_;  // null: the inner Comm sends all of them
  std::shared_ptr<FailureReport> failure_report_;
  bool is_part_;
  std::vector<int> world_ranks_;  // one entry per rank of this group: its rank in the run
};

}  // namespace

std::unique_ptr<Comm> make_shared_comm(std::unique_ptr<Comm> inner, std::shared_ptr<FailureReport> failure_report,
                                       std::optional<int> part_of) {
  auto group = SharedGroup::meet(*inner);
  if (!group) return inner;
  return std::make_unique<SharedComm>(std::move(inner), std::move(group), std::move(failure_report), part_of);
}

}  // namespace penstock::detail
