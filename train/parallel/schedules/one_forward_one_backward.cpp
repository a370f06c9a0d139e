// 1f1b: one forward, one backward.
#include <algorithm>

#include "train/parallel/strategy/schedule.h"

namespace penstock {
namespace {

using detail::Schedule, detail::SchedulePlan;
using enum detail::Operation::Kind;

/// One forward, one backward (Narayanan et al. 2019, "PipeDream", sec. 3.2, in the synchronous form of Narayanan et al.
/// 2021, fig. 4 top). Rank p runs P - 1 - p forwards ahead and then takes turns, so that no more than P - p activations
/// are alive there; the bubble is that of gpipe.
///
///     rank 0  F0 F1 F2 .  .  .  .  B0 =  F3 B1 =  .  B2 =  .  B3 =
///     rank 1  .  F0 F1 .  .  B0 =  F2 B1 =  F3 B2 =  .  B3 =  .  .
///     rank 2  .  .  F0 B0 =  F1 B1 =  F2 B2 =  F3 B3 =  .  .  .  .
class OneForwardOneBackward final : public PipelineSchedule {
 public:
  Schedule operations(const SchedulePlan& plan, int rank) const override {
    Schedule schedule;
    const int ahead = std::min(plan.ranks - 1 - rank, plan.micro_batches);
    for (int m = 0; m < ahead; ++m) schedule.push_back({kForward, m});
    for (int m = 0; m < plan.micro_batches; ++m) {
      if (m + ahead < plan.micro_batches) schedule.push_back({kForward, m + ahead});
      schedule.push_back({kBackward, m});
    }
    return schedule;
  }
};

const Registered<ScheduleKind> kOneForwardOneBackward{
    "1f1b", {}, "one forward, one backward", [](const Spec&) { return std::make_unique<OneForwardOneBackward>(); }, {}};

}  // namespace
}  // namespace penstock
