// zero-bubble: 1f1b whose gradients of weights fill the time of waiting.
#include <algorithm>

#include "train/parallel/strategy/schedule.h"

namespace penstock {
namespace {

using detail::Schedule, detail::SchedulePlan;
using enum detail::Operation::Kind;

/// 1f1b with backward in two halves, of which only the first one is waited for (Qi et al. 2024, "Zero bubble pipeline
/// parallelism", ZB-H1, fig. 2 top): rank p delays the second half by p micro-batches, which then fills the time in
/// which it would wait. Up to min(P, M) activations are alive, at every rank. From M = P on the bubble is
/// (P - 1) / (3 M + P - 1) where F, B and W take equal times: a third of the waiting of 1f1b.
///
///     rank 0  F0 F1 F2 .  .  B0 W0 F3 B1 W1 B2 W2 B3 W3
///     rank 1  .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 B3 W2 W3
///     rank 2  .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3
class ZeroBubble final : public PipelineSchedule {
 public:
  Schedule operations(const SchedulePlan& plan, int rank) const override {
    Schedule schedule;
    const int ahead = std::min(plan.ranks - 1 - rank, plan.micro_batches);
    for (int m = 0; m < ahead; ++m) schedule.push_back({kForward, m});
    for (int m = 0; m < plan.micro_batches; ++m) {
      if (m + ahead < plan.micro_batches) schedule.push_back({kForward, m + ahead});
      schedule.push_back({kInputGradient, m});
      if (m >= rank) schedule.push_back({kWeightGradient, m - rank});
    }
    for (int m = std::max(0, plan.micro_batches - rank); m < plan.micro_batches; ++m)
      schedule.push_back({kWeightGradient, m});
    return schedule;
  }
};

const Registered<ScheduleKind> kZeroBubble{
    "zero-bubble",
    {},
    "1f1b with backward in two halves, of which only the first one is waited for",
    [](const Spec&) { return std::make_unique<ZeroBubble>(); },
    {.splits_backward = true}};

}  // namespace
}  // namespace penstock
