// interleaved: 1f1b with several parts of the model per rank.
#include <algorithm>

#include "train/parallel/strategy/schedule.h"

namespace penstock {
namespace {

using detail::Schedule, detail::SchedulePlan;
using enum detail::Operation::Kind;

/// As 1f1b, with `interleave` parts per rank (Narayanan et al. 2021, "Efficient large-scale language model training on
/// GPU clusters", sec. 2.2): P micro-batches go through a rank's first part, then through its second one. The bubble is
/// (P - 1) / (v M + P - 1). Up to 2 (P - 1 - p) + (v - 1) P + 1 activations are alive at rank p, each of a part 1 / v
/// as large. Requires that `rank_count` divides `micro_batches`.
///
///     2 micro-batches, 2 ranks, v = 2; F0.1 is the forward of micro-batch 0 in the rank's second part
///     rank 0  F0.0 F1.0 F0.1 F1.1 .    .    B0.1 =    .    B1.1 =    B0.0 =    B1.0 =
///     rank 1  .    F0.0 F1.0 F0.1 B0.1 =    F1.1 B1.1 =    B0.0 =    B1.0 =    .    .
class Interleaved final : public PipelineSchedule {
 public:
  Schedule operations(const SchedulePlan& plan, int rank) const override {
    // The k-th forward of a rank, and the k-th backward: P micro-batches go through a chunk, then through the next one
    // (Narayanan et al. 2021, fig. 4 bottom).
    const int count = plan.micro_batches * plan.interleave, round = plan.ranks * plan.interleave;
    const auto micro_batch = [&](int k) { return k / round * plan.ranks + k % plan.ranks; };
    const auto chunk = [&](int k) { return k % round / plan.ranks; };
    const int ahead = std::min(2 * (plan.ranks - 1 - rank) + (plan.interleave - 1) * plan.ranks, count);
    Schedule schedule;
    for (int k = 0; k < ahead; ++k) schedule.push_back({kForward, micro_batch(k), chunk(k)});
    for (int k = 0; k < count; ++k) {
      if (k + ahead < count) schedule.push_back({kForward, micro_batch(k + ahead), chunk(k + ahead)});
      schedule.push_back({kBackward, micro_batch(k), plan.interleave - 1 - chunk(k)});
    }
    return schedule;
  }
};

const Registered<ScheduleKind> kInterleaved{"interleaved",
                                            {},
                                            "1f1b with interleave=2 model chunks per rank",
                                            [](const Spec&) { return std::make_unique<Interleaved>(); },
                                            {.chunks = 2}};

}  // namespace
}  // namespace penstock
