// Schedules: in which order one rank of a pipeline runs forward and backward of its micro-batches.
#pragma once

#include <string>
#include <vector>

namespace penstock::detail {

struct Operation {
  /// kBackward gives the gradients of the part's input and of its parameters at once. kInputGradient and
  /// kWeightGradient are its two halves, in this order.
  enum class Kind { kForward, kBackward, kInputGradient, kWeightGradient };
  Kind kind = Kind::kForward;
  int micro_batch = 0;
  int chunk = 0;  ///< Which of the parts that the rank holds, in the order of the model.
  /// In a forward: only its input is kept. In the operation that follows it: the forward is run again first.
  bool recomputes = false;
  bool operator==(const Operation&) const = default;
};

/// The operations of one rank in one step, in order.
using Schedule = std::vector<Operation>;

/// Which forwards keep their input alone and are run again before their backward (Chen et al. 2016, "Training deep nets
/// with sublinear memory cost"). kExceptLast: all but those that their backward follows at once, which would save
/// nothing. With gpipe that is the last micro-batch, as in torchgpipe (Kim et al. 2020, sec. 2.3).
enum class Recompute { kNever, kExceptLast, kAlways };

/// What a pipeline's operations depend on. The model has ranks x interleave parts; part q is chunk q / ranks of rank
/// q % ranks.
struct SchedulePlan {
  std::string name = "1f1b";  // gpipe, 1f1b, interleaved, zero-bubble
  int ranks = 1, micro_batches = 1;
  int interleave = 1;  // parts per rank; above 1 with `interleaved` alone
  Recompute recompute = Recompute::kNever;
  bool takes_turns = false;  // each micro-batch is through before the next one begins, whatever the name
};

/// One entry per rank. Throws config_error naming the mode's key for an unknown name.
std::vector<Schedule> schedules_of(const SchedulePlan& plan);

/// The value of the key `recompute`: never, except-last or always. Throws config_error for another text.
Recompute recompute_named(const std::string& text);

/// All forwards, then all backwards in reverse order (Huang et al. 2019, "GPipe", fig. 2c). Up to `micro_batches`
/// activations are alive at every rank.
///
///     4 micro-batches, 3 ranks; F takes 1 and B takes 2; the bubble is (P - 1) / (M + P - 1) of the time
///     rank 0  F0 F1 F2 F3 .  .  .  .  .  .  B3 =  B2 =  B1 =  B0 =
///     rank 1  .  F0 F1 F2 F3 .  .  .  B3 =  B2 =  B1 =  B0 =  .  .
///     rank 2  .  .  F0 F1 F2 F3 B3 =  B2 =  B1 =  B0 =  .  .  .  .
///
/// Every rank has the same list: what it waits for makes the shape.
Schedule gpipe(int micro_batches);

/// One forward, one backward (Narayanan et al. 2019, "PipeDream", sec. 3.2, in the synchronous form of Narayanan et al.
/// 2021, fig. 4 top). Rank p runs P - 1 - p forwards ahead and then takes turns, so that no more than P - p activations
/// are alive there; the bubble is that of gpipe.
///
///     rank 0  F0 F1 F2 .  .  .  .  B0 =  F3 B1 =  .  B2 =  .  B3 =
///     rank 1  .  F0 F1 .  .  B0 =  F2 B1 =  F3 B2 =  .  B3 =  .  .
///     rank 2  .  .  F0 B0 =  F1 B1 =  F2 B2 =  F3 B3 =  .  .  .  .
Schedule one_forward_one_backward(int rank, int rank_count, int micro_batches);

/// F0 B0 F1 B1 ...: for a rank that holds the whole model. One activation is alive at a time.
Schedule accumulation(int micro_batches);

/// As 1f1b, with `interleave` parts per rank (Narayanan et al. 2021, "Efficient large-scale language model training on
/// GPU clusters", sec. 2.2): P micro-batches go through a rank's first part, then through its second one. The bubble is
/// (P - 1) / (v M + P - 1). Up to 2 (P - 1 - p) + (v - 1) P + 1 activations are alive at rank p, each of a part 1 / v
/// as large. Requires that `rank_count` divides `micro_batches`.
///
///     2 micro-batches, 2 ranks, v = 2; F0.1 is the forward of micro-batch 0 in the rank's second part
///     rank 0  F0.0 F1.0 F0.1 F1.1 .    .    B0.1 =    .    B1.1 =    B0.0 =    B1.0 =
///     rank 1  .    F0.0 F1.0 F0.1 B0.1 =    F1.1 B1.1 =    B0.0 =    B1.0 =    .    .
Schedule interleaved(int rank, int rank_count, int micro_batches, int interleave);

/// 1f1b with backward in two halves, of which only the first one is waited for (Qi et al. 2024, "Zero bubble pipeline
/// parallelism", ZB-H1, fig. 2 top): rank p delays the second half by p micro-batches, which then fills the time in
/// which it would wait. Up to min(P, M) activations are alive, at every rank. From M = P on the bubble is
/// (P - 1) / (3 M + P - 1) where F, B and W take equal times: a third of the waiting of 1f1b.
///
///     rank 0  F0 F1 F2 .  .  B0 W0 F3 B1 W1 B2 W2 B3 W3
///     rank 1  .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 B3 W2 W3
///     rank 2  .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3
Schedule zero_bubble(int rank, int rank_count, int micro_batches);

/// The most micro-batches, of all chunks together, whose intermediate activations a rank keeps at once: from the
/// forward that keeps them, or that is run again, to the end of backward.
int most_alive(const Schedule& schedule);

/// What most_alive() does not exceed at this rank without recomputation, by the formulas above.
int alive_bound(const SchedulePlan& plan, int rank);

}  // namespace penstock::detail
