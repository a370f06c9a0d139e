// Prediction: what the simulated threads do and wait for, and what is alive at each rank.
#include "train/parallel/plan/prediction.h"

#include <algorithm>

#include "train/parallel/plan/step_tasks.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/strategy/memory_formula.h"

namespace penstock::detail {
namespace {

using enum Operation::Kind;

/// Seconds in which a rank's training thread waits, by what came last.
struct Waits {
  double load = 0, sums = 0, messages = 0;
};

Waits waits_of(const StepTasks& steps, const std::vector<TaskTime>& times, const std::vector<size_t>& own, double from,
               double until) {
  Waits waits;
  double free_at = from;
  for (const size_t number : own) {
    const auto& [begin, end] = times[number];
    if (end <= from) continue;
    const bool makes_batch = steps.kinds[number] == TaskKind::kLoad;  // without workers
    if (makes_batch) waits.load += end - std::max(begin, from);
    if (const double wait = begin - free_at; wait > 0) {
      TaskKind cause = TaskKind::kCompute;
      double latest = -1;
      for (const size_t other : steps.tasks[number].after)
        if (const double ready = times[other].end + steps.tasks[other].latency; ready > latest)
          latest = ready, cause = steps.kinds[other];
      if (cause == TaskKind::kLoad) waits.load += wait;
      if (cause == TaskKind::kSum) waits.sums += wait;
      if (cause == TaskKind::kMessage) waits.messages += wait;
    }
    free_at = end;
  }
  waits.messages += until - free_at;  // for the next step, which another rank begins later
  return waits;
}

/// The bytes of one rank's process.
class RankMemory {
 public:
  RankMemory(const PlannedMode& planned, const StepShape& shape, const MachineCosts& costs,
             const std::vector<ParameterFacts>& parameters, int pipe_rank)
      : planned_(planned), shape_(shape), costs_(costs), parameters_(parameters), pipe_rank_(pipe_rank) {}

  double bytes() const {
    const bool learns = planned_.emulation.learns();
    return costs_.base_bytes + tensors(learns) + (learns ? most_alive_bytes() + evaluated_bytes() : 0) + batches() +
           messages();
  }

 private:
  double rows() const { return static_cast<double>(shape_.rows); }
  const BlockRange& blocks_of(int chunk) const {
    return shape_.plan.stages[static_cast<size_t>(shape_.placed.placement.part_of(pipe_rank_, chunk))];
  }

  double tensors(bool learns) const {
    const double copies = shape_.plan.mesh.data, replicas = shape_.plan.mesh.replicas;
    const double all = held_bytes(shape_, pipe_rank_, parameters_, /*only_trained=*/false);
    const double trained = held_bytes(shape_, pipe_rank_, parameters_, /*only_trained=*/true);
    const double kept = kept_bytes(memory_formula(shape_.plan, learns ? planned_.optimizer_slots : 0), all, trained);
    if (shape_.plan.sharded.parameters) return kept + units_at_once();
    const double whole_gradients = shape_.plan.sharded.gradients ? std::min(trained, 2.0 * kBucketBytes) : 0;
    // A rank touches its slice of all others' gradients, and Linux counts these pages for each process.
    const auto& compression = shape_.plan.compression.name;
    const bool maps_others = costs_.shares_memory && copies > 1 && shape_.plan.sharded.stage() != 2;
    const double summed = compression == "fp16" ? trained / 2 : compression.empty() ? trained : 0;
    const double mapped = maps_others ? (copies - 1) * summed / copies : 0;
    // What stands for the gradients, or what earlier steps have left out of them; and the gradients as they are, in
    // steps that measure the error.
    const double beside = compression.empty() ? 0 : trained + (compression == "fp16" ? trained / 2 : trained);
    return kept + whole_gradients + (replicas - 1) * trained + beside + mapped;
  }

  /// Bytes of the units that zero(stage=3) holds whole: two neighbours, and the gradients of two that are being sent.
  double units_at_once() const {
    const auto units = parameter_units(shape_, parameters_);
    double most = units.front().bytes() + units.front().trained_bytes;
    for (size_t i = 0; i + 1 < units.size(); ++i)
      most =
          std::max(most, units[i].bytes() + units[i].trained_bytes + units[i + 1].bytes() + units[i + 1].trained_bytes);
    return most;
  }

  /// The most that the activations of micro-batches take at once, and what libraries need beside them.
  double most_alive_bytes() const {
    double alive = 0, most = 0;
    for (const auto& operation : shape_.placed.ranks[static_cast<size_t>(pipe_rank_)]) {
      const BlockRange& blocks = blocks_of(operation.chunk);
      double kept = 0;
      for (size_t block = blocks.first; block < blocks.end; ++block) kept += costs_.activation_bytes[block] * rows();
      const double input = rows() * (blocks.first == 0 ? 0 : costs_.output_bytes[blocks.first - 1]);
      if (operation.kind == kForward) {
        alive += operation.recomputes ? input : kept + input;
        most = std::max(most, alive + (operation.recomputes ? kept : 0));
      } else {
        if (operation.recomputes && operation.kind != kWeightGradient) alive += kept;
        most = std::max(most, alive);
        if (operation.kind != kInputGradient) alive -= kept + input;
      }
    }
    const double extra = costs_.pass(shape_.rows, shape_.pass_kind(planned_.threads)).extra_bytes;
    return (most + extra * share_of_largest()) * shape_.plan.mesh.replicas;
  }

  /// The largest block of this rank beside the largest of the model, by their activations.
  double share_of_largest() const {
    double largest = 0;
    for (const int part : shape_.placed.placement.parts_of(pipe_rank_)) {
      const auto& range = shape_.plan.stages[static_cast<size_t>(part)];
      for (size_t block = range.first; block < range.end; ++block)
        largest = std::max(largest, costs_.activation_bytes[block]);
    }
    const double of_all = *std::max_element(costs_.activation_bytes.begin(), costs_.activation_bytes.end());
    return of_all > 0 ? largest / of_all : 1;
  }

  /// What evaluations take beyond steps.
  double evaluated_bytes() const {
    return costs_.evaluation_bytes * static_cast<double>(planned_.evaluated_rows) * share_of_largest();
  }

  /// What is touched of the rings to the neighbours and from them.
  double messages() const {
    constexpr double kTouched = 16, kLongest = 16 << 20;
    if (!costs_.shares_memory) return 0;
    double bytes = 0;
    for (const int part : shape_.placed.placement.parts_of(pipe_rank_)) {
      const auto& range = shape_.plan.stages[static_cast<size_t>(part)];
      for (const size_t end : {range.first, range.end}) {
        if (end == 0 || end == shape_.plan.stages.back().end) continue;
        const double message = costs_.output_bytes[end - 1] * rows();
        if (message <= kLongest) bytes += 2 * std::min(kTouched, 2.0 * shape_.plan.schedule.micro_batches) * message;
      }
    }
    return bytes;
  }

  /// The slots of the loaders, of training and of evaluations.
  double batches() const {
    if (pipe_rank_ != 0) return 0;
    const double slots = planned_.prefetch + 2, row = costs_.picture_bytes;
    const double trained = rows() * shape_.plan.schedule.micro_batches * shape_.plan.mesh.replicas;
    return slots * row * (trained + static_cast<double>(planned_.evaluated_rows));
  }

  const PlannedMode& planned_;
  const StepShape& shape_;
  const MachineCosts& costs_;
  const std::vector<ParameterFacts>& parameters_;
  int pipe_rank_;
};

}  // namespace

Prediction predict(const PlannedMode& planned, const StepShape& shape, const MachineCosts& costs,
                   const std::vector<ParameterFacts>& parameters) {
  constexpr int kLeast = 3;
  const int period = std::max(1, shape.local_steps()), measured = (kLeast + period - 1) / period * period;
  const int warm_up = planned.prefetch + 2;
  const auto steps = tasks_of({planned, shape, costs, parameters}, warm_up + measured);
  const auto times = run_tasks(steps.tasks, costs.cores);
  const auto end_of = [&](size_t step) {
    double end = 0;
    for (const size_t task : steps.last_tasks[step]) end = std::max(end, times[task].end);
    return end;
  };
  const double from = end_of(static_cast<size_t>(warm_up) - 1), all = end_of(steps.last_tasks.size() - 1) - from;
  Prediction prediction{.step_seconds = all / measured};
  Waits first;
  for (size_t rank = 0; rank < steps.of_ranks.size(); ++rank) {
    const Waits waits = waits_of(steps, times, steps.of_ranks[rank], from, from + all);
    if (rank == 0) first = waits;
    prediction.bubble += waits.messages / (all * static_cast<double>(steps.of_ranks.size()));
    const int pipe_rank = shape.plan.mesh.pipe_rank(static_cast<int>(rank));
    prediction.rank_bytes.push_back(RankMemory(planned, shape, costs, parameters, pipe_rank).bytes());
  }
  prediction.exposed_communication = first.sums / all;
  prediction.load_wait = first.load / all;
  return prediction;
}

}  // namespace penstock::detail
