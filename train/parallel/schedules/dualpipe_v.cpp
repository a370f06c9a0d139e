// dualpipe-v: two parts per rank in V form; a forward of one part and a backward of the other take turns.
#include <deque>
#include <utility>

#include "train/parallel/strategy/schedule.h"

namespace penstock {
namespace {

using detail::Schedule, detail::SchedulePlan;
using enum detail::Operation::Kind;

/// DualPipeV: the half of DualPipe (DeepSeek-AI 2024, "DeepSeek-V3 technical report", sec. 3.2.1) that one half of its
/// ranks has, which holds the whole model once: rank p has parts p and 2 P - 1 - p, as with zb-v. The order is that of
/// the authors' program (github.com/deepseek-ai/DualPipe, `DualPipeV.step`, in eight stretches) and of PyTorch's
/// ScheduleDualPipeV. Backward is whole, except at the ends, where its halves fill the time of waiting. Requires 2 P
/// micro-batches or more. Up to 2 P + 1 activations are alive, at every rank, each of half of its blocks. Where F, B's
/// halves and W take equal times the bubble is (P - 1) / (6 M + P - 1).
///
/// Deviation: there a forward and the backward beside it run at once, so that each hides the messages of the other one.
/// Here they run one after the other.
///
///     4 micro-batches, 2 ranks; B is a whole backward and I its first half
///     rank 0  F0.0 F1.0 F2.0 F0.1 I0.1 W0.1 F1.1 F3.0 B1.1 =    F2.1 B0.0 =
///     rank 1  .    F0.0 F0.1 F1.0 F1.1 F2.0 B0.1 =    F2.1 B0.0 =    F3.0 B1.1
///
///             B2.1 =    F3.1 .    B1.0 =    B3.1 =    I2.0 W2.0 I3.0 W3.0
///             =    F3.1 B1.0 =    B2.1 =    B2.0 =    I3.1 I3.0 W3.1 W3.0
class DualPipeV final : public PipelineSchedule {
 public:
  Schedule operations(const SchedulePlan& plan, int rank) const override {
    Order order;
    const int ranks_after = plan.ranks - 1 - rank, ranks_until_here = rank + 1;  // the latter counts this one
    for (int i = 0; i < 2 * ranks_after; ++i) order.forward(0);
    for (int i = 0; i < ranks_until_here; ++i) order.forward(0).forward(1);
    for (int i = 0; i < ranks_after; ++i) order.input_gradient(1).weight_gradient().forward(1);
    for (int i = 0; i < plan.micro_batches - 2 * plan.ranks + ranks_until_here; ++i)
      order.forward(0).backward(1).forward(1).backward(0);
    for (int i = 0; i < ranks_after; ++i) order.backward(1).forward(1).backward(0);
    // The second half of these backwards is split, from the same one on in both parts of an odd rank.
    bool is_split = false;
    const auto gradient = [&](int chunk) { is_split ? order.input_gradient(chunk) : order.backward(chunk); };
    for (int i = 0; i < ranks_until_here; ++i) {
      const bool is_middle = i == ranks_until_here / 2;
      is_split |= is_middle && rank % 2 == 1;
      gradient(1);
      is_split |= is_middle;
      gradient(0);
    }
    for (int i = 0; i < ranks_after; ++i) {
      order.weight_gradient();
      gradient(0);
    }
    for (int i = 0; i < ranks_until_here; ++i) order.weight_gradient();
    return order.take();
  }

 private:
  /// Operations whose micro-batches follow one another in each chunk.
  class Order {
   public:
    Order& forward(int chunk) { return add(kForward, next_forward_[chunk]++, chunk); }
    Order& backward(int chunk) { return add(kBackward, next_backward_[chunk]++, chunk); }
    Order& input_gradient(int chunk) {
      waiting_.push_back({kWeightGradient, next_backward_[chunk], chunk});
      return add(kInputGradient, next_backward_[chunk]++, chunk);
    }
    /// Takes the first one that is left; nothing if there is none.
    Order& weight_gradient() {
      if (waiting_.empty()) return *this;
      operations_.push_back(waiting_.front());
      waiting_.pop_front();
      return *this;
    }
    Schedule take() { return std::move(operations_); }

   private:
    Order& add(detail::Operation::Kind kind, int micro_batch, int chunk) {
      operations_.push_back({kind, micro_batch, chunk});
      return *this;
    }

    int next_forward_[2] = {}, next_backward_[2] = {};  // by chunk
    std::deque<detail::Operation> waiting_;
    Schedule operations_;
  };
};

const Registered<ScheduleKind> kDualPipeV{
    "dualpipe-v",
    {},
    "two model chunks per rank, to the last rank and back: a forward of one and a backward of the other in turn",
    [](const Spec&) { return std::make_unique<DualPipeV>(); },
    {.chunks = 2, .splits_backward = true, .is_v = true, .least_per_rank = 2}};

}  // namespace
}  // namespace penstock
