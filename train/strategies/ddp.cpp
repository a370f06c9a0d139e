// ddp: distributed data parallel (Li et al. 2020, "PyTorch Distributed", sec. 3.2): every rank holds the model and
// takes its rows of each global batch; gradients are summed in flat buckets while backward still runs.
//
//   time ->        backward completes gradients in reverse order of registration; b0 = the last layers
//   compute        | forward | grad b0 | grad b1 | grad b2 | wait | update
//   communication                      | sum b0  | sum b1  | sum b2 |
//                                                           ^^^^^^ exposed: Phase::kCommunication
//
// Deviation from the paper: the sum is not divided by the world size; the loss is divided by the global sample count
// before.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <deque>

#include "train/strategies/buckets.h"
#include "train/strategies/replicated.h"

namespace penstock {
namespace {

class AfterAccumulation final : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

class Ddp final : public detail::Replicated {
 public:
  explicit Ddp(const StrategyContext& context) : Replicated(context) {
    std::vector<torch::Tensor> tensors;
    std::vector<int64_t> tensor_bytes;
    for (const auto& [name, parameter] : trained()) {
      tensors.push_back(parameter);
      tensor_bytes.push_back(static_cast<int64_t>(parameter.nbytes()));
    }
    buckets_ = detail::bucket_gradients(tensors, detail::assign_buckets(tensor_bytes));
    missing_.resize(buckets_.size());
    for (size_t b = 0; b < buckets_.size(); ++b)
      for (const size_t i : buckets_[b].members) add_hook(tensors[i], b);
  }

  ~Ddp() override {
    for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
  }

 private:
  void add_hook(const torch::Tensor& parameter, size_t bucket) {
    // The parameter holds its accumulator weakly: without our reference the hook would be gone with the first graph.
    auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
    auto hook = std::make_unique<AfterAccumulation>([this, bucket] {
      --missing_[bucket];
      start_complete_buckets();
    });
    hooks_.emplace_back(accumulator, accumulator->add_post_hook(std::move(hook)));
  }

  /// Starts buckets strictly in order: collectives must be called in one order by all ranks, whatever order their hooks
  /// came in.
  void start_complete_buckets() {
    while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) start_next();
  }
  void start_next() { works_.push_back(comm().all_reduce_sum(buckets_[works_.size()].flat)); }

  void begin_gradients() override {
    for (auto& work : works_) timed_.push_back(std::move(work));
    works_.clear();
    // On a device they end when it gets there, which nobody waits for.
    for (; !timed_.empty(); timed_.pop_front()) {
      const auto under_way_ms = timed_.front()->under_way_ms();
      if (!under_way_ms) break;
      recorder().add_collectives(*under_way_ms);
    }
    for (size_t b = 0; b < buckets_.size(); ++b) {
      buckets_[b].flat.zero_();
      missing_[b] = buckets_[b].members.size();
    }
  }

  /// Parameters that got no gradient (unused, or a rank without samples) leave buckets unstarted: they hold zeros
  /// there.
  void finish_gradients() override {
    while (works_.size() < buckets_.size()) start_next();
    for (const auto& work : works_) work->wait();
  }

  std::vector<detail::Bucket> buckets_;
  std::vector<size_t> missing_;                     // a bucket: gradients not yet complete in this step
  std::vector<std::unique_ptr<Comm::Work>> works_;  // of the buckets started in this step
  std::deque<std::unique_ptr<Comm::Work>> timed_;   // of the steps before it that have not ended
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks_;
};

const Registered<StrategyKind> kRegistered{
    "ddp",
    {},
    "every rank holds the model; gradients are summed in buckets during backward",
    [](const Spec&, const StrategyContext& context) { return std::make_unique<Ddp>(context); }};

}  // namespace
}  // namespace penstock
