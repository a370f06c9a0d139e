// Machine costs: what a machine takes for the pieces of which every step is made, as measured there.
//
// Lives here: how long a step of a mode will take and how much memory its ranks will have, before it runs: what is
// measured, which tasks a step consists of, and what their simulation (pipeline/task_times.h) says.
// Not here: the schedules (schedules), and what a study takes for a machine (tools/train/study/predicted_step.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/parallel/pipeline/task_times.h"
#include "train/parallel/strategy/step_plan.h"

namespace penstock::detail {

/// One block of the model, for one micro-batch.
struct BlockWork {
  Work forward, backward;
  Work input_gradient, weight_gradient;  // the halves of a backward; 0 where they were not measured
  Work joined = {};  // of backward, for each micro-batch, but all of it in the last one: see WeightGradients
};

/// What was measured of passes beside their numbers of rows.
struct PassKind {
  int threads = 1;      // of one rank
  bool joins = false;   // several micro-batches, whose gradients of large weights are made together
  bool splits = false;  // the halves of backward were measured
  bool syncs = false;   // BatchNorm layers compute as those with statistics of all ranks do
};

/// Micro-batches of `rows` rows that pass through the whole model, block after block.
struct PassCosts {
  int64_t rows = 0;
  int threads = 1;  // as the next ones: see PassKind
  bool joins = false, splits = false, syncs = false;
  std::vector<BlockWork> blocks;
  Work loss;
  double skew = 0;         // seconds that the sum after a pass takes longer, because ranks do not come to it at once
  double gather_skew = 0;  // the same of each gather of a synced layer
  double extra_bytes = 0;  // that the process takes in a pass beside activations and gradients
};

/// Seconds of something with `bytes`: seconds + bytes * seconds_per_byte.
struct LineCost {
  double seconds = 0, seconds_per_byte = 0;
  double cores = 1;  // busy meanwhile, over all ranks that take part

  double at(double bytes) const { return seconds + bytes * seconds_per_byte; }
};

/// By the bytes of the tensor, over `ranks` ranks. Ring gathers are of tensors outside of the memory that ranks share,
/// half sums of numbers of 16 bits; scatters, which Gloo makes of a sum, are outside of shared memory as well.
struct CollectiveCosts {
  int ranks = 2;
  LineCost sum = {}, half_sum = {}, gather = {}, ring_gather = {}, scatter = {};
  LineCost vote = {};  // of the sum of few bytes by which ranks agree to go on, once per step
};

/// What a rank computes for compression, per byte of its gradients: before the first sum over the ranks, between that
/// and the second one, and at the end. What the ranks tell each other comes on top.
struct CompressionCosts {
  Compression compression;
  Work start{}, turn{}, finish{};
};

/// Everything that a prediction needs to know of a machine, with one model, size of pictures and optimiser.
struct MachineCosts {
  std::string setting;  // "resnet18, 3 x 64 x 64, sgd, on Xeon": what was measured
  double cores = 1;
  std::vector<PassCosts> passes;
  std::vector<double> activation_bytes;  // one entry per block: what backward needs of a row
  std::vector<double> output_bytes;      // the same: of the output for a row
  double picture_bytes = 0;              // of a row that goes into the first block
  Work update, touch;  // per byte of parameters: the update; setting gradients to 0 and adding to them
  std::vector<CompressionCosts> compressions;
  std::vector<CollectiveCosts> collectives = std::vector<CollectiveCosts>(1);  // one or more, by numbers of ranks
  LineCost message;                                                            // by the bytes of the tensor
  bool shares_memory = false;   // ranks sum in memory that they share; otherwise around a ring
  Work load;                    // a worker of the loader, for a row
  double base_bytes = 0;        // of a rank's process without tensors
  double evaluation_bytes = 0;  // of a row of an evaluation, beyond what passes have left in the process

  /// Those around the ring are of tensors outside of the memory that ranks share.
  enum class Collective { kSum, kHalfSum, kRingSum, kScatter, kGather, kRingGather, kVote };
  static bool is_sum(Collective kind);
  /// Seconds of a collective over `rank_count` ranks, from the moment at which all of them have come to it.
  double collective_seconds(Collective kind, double bytes, int rank_count) const;
  /// Cores that one rank uses meanwhile.
  double collective_cores(Collective kind, int rank_count) const;

  /// For micro-batches of `rows` rows. Between the measured numbers of rows, and beyond them, it is linear in rows.
  /// Throws config_error if nothing was measured with so many threads, or no halves or synced layers where they are
  /// needed.
  PassCosts pass(int64_t rows, const PassKind& kind) const;
  /// Throws config_error if it was not measured.
  const CompressionCosts& compressed(const Compression& compression) const;

 private:
  /// The one whose number of ranks is the nearest.
  const CollectiveCosts& measured_for(int rank_count) const;
  static const LineCost& cost_of(const CollectiveCosts& measured, Collective kind);
};

std::string to_json(const MachineCosts& costs);
/// Throws corrupt_error that names `where` for anything that to_json() does not write.
MachineCosts costs_from_json(const std::string& text, const std::string& where);

}  // namespace penstock::detail
