// Rank tasks: the threads of all ranks, and the tasks that they are given.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "train/parallel/pipeline/task_times.h"
#include "train/parallel/plan/machine_costs.h"
#include "train/parallel/plan/step_shape.h"

namespace penstock::detail {

/// What a task is, for whoever waits for it.
enum class TaskKind { kLoad, kCompute, kSum, kMessage };

struct StepTasks {
  std::vector<Task> tasks;
  std::vector<TaskKind> kinds;                  // one entry per task
  std::vector<std::vector<size_t>> of_ranks;    // one entry per rank: the tasks of its training thread, in order
  std::vector<std::vector<size_t>> last_tasks;  // one entry per step: of each rank
};

/// What steps are predicted from. All of it outlives whoever has this.
struct StepCase {
  const PlannedMode& planned;
  const StepShape& shape;
  const MachineCosts& costs;
  const std::vector<ParameterFacts>& parameters;

  bool is_emulated() const { return planned.emulation.step_ns > 0; }
  int rank_count() const { return shape.plan.mesh.size(); }
  bool has_copies() const { return shape.plan.mesh.data > 1; }
  size_t block_count() const { return shape.plan.stages.back().end; }
  double trained_bytes(int rank) const {
    return held_bytes(shape, shape.plan.mesh.pipe_rank(rank), parameters, /*only_trained=*/true);
  }
  double trained_bytes_of_block(size_t block) const;
  /// The ranks that hold the same blocks.
  std::vector<int> ranks_with(int pipe_rank) const;
};

/// Streams of a rank; those of workers and of replicas follow.
enum Stream : size_t { kTraining, kSums, kMessages, kLink, kFirstWorker };

class RankTasks {
 public:
  using Collective = MachineCosts::Collective;

  explicit RankTasks(const StepCase& step);

  const StepCase& step() const { return step_; }
  const StepTasks& tasks() const { return result_; }
  StepTasks& tasks() { return result_; }

  /// Returns the number of the task, as all of these do.
  size_t add(int rank, size_t stream, TaskKind kind, Task task);
  /// On the training thread.
  size_t compute(int rank, Work work, std::vector<size_t> after = {});
  /// The training thread goes on when these are done.
  size_t wait_for(int rank, std::vector<size_t> after);
  /// What an emulated network adds to a message or a sum; none without one.
  std::optional<size_t> over_network(int rank, double bytes, double delays, const std::vector<size_t>& after);
  /// Each rank's task of a collective begins when all of `after` are done, which are of all ranks; it takes `more`
  /// seconds besides. Returns what each of them waits for.
  std::vector<size_t> collective(Collective kind, const std::vector<int>& ranks, double bytes,
                                 const std::vector<size_t>& after, double more = 0, Stream stream = kSums);

  /// For a micro-batch: a block of `part`, and the loss. `is_last`: no other operation adds to the block's gradients.
  Work block_work(Operation::Kind kind, size_t block, int part, bool is_last) const;
  Work loss_work() const { return pass_ ? pass_->loss : Work{}; }
  /// Seconds that the sum after a pass takes longer, because ranks do not come to it at once.
  double skew() const { return pass_ ? pass_->skew : 0; }
  double gather_skew() const { return pass_ ? pass_->gather_skew : 0; }

 private:
  StepCase step_;
  size_t streams_per_rank_;
  std::optional<PassCosts> pass_;  // none: the step is emulated
  StepTasks result_;
};

/// One entry per rank, by block: what added to its gradients last.
using GradientTasks = std::vector<std::map<size_t, size_t>>;

}  // namespace penstock::detail
