// zb-v: two parts per rank in V form, whose gradients of weights fill the time of waiting.
#include <algorithm>
#include <utility>

#include "train/parallel/strategy/schedule.h"

namespace penstock {
namespace {

using detail::Schedule, detail::SchedulePlan;
using enum detail::Operation::Kind;

/// The way through the model goes to the last rank and back: rank p has parts p and 2 P - 1 - p, so that rank 0, which
/// begins, also has the last part, and can begin backward early (Qi et al. 2024, "Zero bubble pipeline parallelism",
/// ZB-V, sec. 6). Backward is in two halves. Up to 2 P activations are alive, at every rank, each of half of its
/// blocks: those of 1f1b at rank 0. From M = 2 P - 1 on, where F, B and W take equal times, a rank waits for nothing
/// once it has begun until it ends; it begins p later than rank 0, so that the bubble is (P - 1) / (6 M + P - 1).
///
///     3 micro-batches, 2 ranks; F0.1 is the forward of micro-batch 0 in the rank's second part
///     rank 0  F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 B1.1 W1.1 B0.0 W0.0 F2.1 B2.1 W2.1 B1.0 W1.0 B2.0 W2.0 .
///     rank 1  .    F0.0 F0.1 F1.0 F1.1 B0.1 W0.1 F2.0 B0.0 W0.0 F2.1 B1.1 W1.1 B1.0 B2.1 B2.0 W1.0 W2.1 W2.0
///
/// With fewer micro-batches the operations are those of 2 P - 1, without the ones that are not there.
class ZbV final : public PipelineSchedule {
 public:
  Schedule operations(const SchedulePlan& plan, int rank) const override {
    Order order(std::max(plan.micro_batches, 2 * plan.ranks - 1));
    const int until_end = plan.ranks - rank;
    for (int i = 0; i < 2 * until_end - 1; ++i) order.add(kForward, 0);
    for (int i = 0; i < rank; ++i) order.add(kForward, 1).add(kForward, 0);
    for (int i = 0; i < until_end; ++i) order.add(kForward, 1).add_backward(1);
    while (!order.is_through(kForward, 1)) {
      if (!order.is_through(kForward, 0)) order.add(kForward, 0);
      order.add_backward(0).add(kForward, 1).add_backward(1);
    }
    for (int i = 0; i < rank; ++i) order.add(kInputGradient, 0).add(kInputGradient, 1);
    for (int i = 0; i < until_end; ++i) order.add_backward(0);
    for (const int chunk : {1, 0})
      while (!order.is_through(kWeightGradient, chunk)) order.add(kWeightGradient, chunk);
    return order.first(plan.micro_batches);
  }

 private:
  /// Operations whose micro-batches follow one another, for each kind and chunk.
  class Order {
   public:
    explicit Order(int micro_batches) : micro_batches_(micro_batches) {}

    Order& add(detail::Operation::Kind kind, int chunk) {
      operations_.push_back({kind, next_[static_cast<int>(kind)][chunk]++, chunk});
      return *this;
    }
    Order& add_backward(int chunk) { return add(kInputGradient, chunk).add(kWeightGradient, chunk); }
    bool is_through(detail::Operation::Kind kind, int chunk) const {
      return next_[static_cast<int>(kind)][chunk] == micro_batches_;
    }
    Schedule first(int micro_batches) {
      std::erase_if(operations_, [&](const auto& one) { return one.micro_batch >= micro_batches; });
      operations_.shrink_to_fit();  // --print-schedule holds those of all ranks
      return std::move(operations_);
    }

   private:
    int micro_batches_;
    int next_[4][2] = {};  // by kind and chunk
    Schedule operations_;
  };
};

const Registered<ScheduleKind> kZbV{"zb-v",
                                    {},
                                    "zero-bubble with two model chunks per rank, to the last rank and back",
                                    [](const Spec&) { return std::make_unique<ZbV>(); },
                                    {.chunks = 2, .splits_backward = true, .is_v = true}};

}  // namespace
}  // namespace penstock
