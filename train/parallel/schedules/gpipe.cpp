// gpipe: all forwards of a step, then all backwards.
//
// Lives here: plug-ins, one per schedule of a pipeline, each a pure function with its timeline drawn.
// Not here: what runs a schedule (engine/schedule_runner.h); its interface is strategy/schedule.h.

#include "train/parallel/strategy/schedule.h"

namespace penstock {
namespace {

using detail::Schedule, detail::SchedulePlan;
using enum detail::Operation::Kind;

/// All forwards, then all backwards in reverse order (Huang et al. 2019, "GPipe", fig. 2c). Up to `micro_batches`
/// activations are alive at every rank.
///
///     4 micro-batches, 3 ranks; F takes 1 and B takes 2; the bubble is (P - 1) / (M + P - 1) of the time
///     rank 0  F0 F1 F2 F3 .  .  .  .  .  .  B3 =  B2 =  B1 =  B0 =
///     rank 1  .  F0 F1 F2 F3 .  .  .  B3 =  B2 =  B1 =  B0 =  .  .
///     rank 2  .  .  F0 F1 F2 F3 B3 =  B2 =  B1 =  B0 =  .  .  .  .
///
/// Every rank has the same list: what it waits for makes the shape.
class GPipe final : public PipelineSchedule {
 public:
  Schedule operations(const SchedulePlan& plan, int /*rank*/) const override {
    Schedule schedule;
    for (int m = 0; m < plan.micro_batches; ++m) schedule.push_back({kForward, m});
    for (int m = plan.micro_batches; m-- > 0;) schedule.push_back({kBackward, m});
    return schedule;
  }
};

const Registered<ScheduleKind> kGPipe{"gpipe",
                                      {},
                                      "all forwards, then all backwards",
                                      [](const Spec&) { return std::make_unique<GPipe>(); },
                                      {.hides_messages = true}};

}  // namespace
}  // namespace penstock
