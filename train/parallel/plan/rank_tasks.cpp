// Rank tasks: streams, collectives, and what a block takes.
#include "train/parallel/plan/rank_tasks.h"

#include <algorithm>
#include <utility>

namespace penstock::detail {

double StepCase::trained_bytes_of_block(size_t block) const {
  double bytes = 0;
  for (const auto& one : parameters)
    if (one.is_trained && one.block == block) bytes += static_cast<double>(one.bytes);
  return bytes;
}

std::vector<int> StepCase::ranks_with(int pipe_rank) const {
  std::vector<int> ranks;
  for (int copy = 0; copy < shape.plan.mesh.data; ++copy) ranks.push_back(shape.plan.mesh.rank(copy, pipe_rank));
  return ranks;
}

RankTasks::RankTasks(const StepCase& step)
    : step_(step),
      streams_per_rank_(kFirstWorker + static_cast<size_t>(step.planned.workers + step.shape.plan.mesh.replicas)) {
  if (!step.is_emulated()) pass_ = step.costs.pass(step.shape.rows, step.shape.pass_kind(step.planned.threads));
  result_.of_ranks.resize(static_cast<size_t>(step.rank_count()));
}

size_t RankTasks::add(int rank, size_t stream, TaskKind kind, Task task) {
  task.stream = static_cast<size_t>(rank) * streams_per_rank_ + stream;
  result_.tasks.push_back(std::move(task));
  result_.kinds.push_back(kind);
  const size_t number = result_.tasks.size() - 1;
  if (stream == kTraining) result_.of_ranks[static_cast<size_t>(rank)].push_back(number);
  return number;
}

size_t RankTasks::compute(int rank, Work work, std::vector<size_t> after) {
  const double cores = step_.is_emulated() ? 0.0 : static_cast<double>(step_.planned.threads);
  return add(rank, kTraining, TaskKind::kCompute, {.work = work, .cores = cores, .after = std::move(after)});
}

size_t RankTasks::wait_for(int rank, std::vector<size_t> after) {
  return add(rank, kTraining, TaskKind::kCompute, {.cores = 0, .after = std::move(after)});
}

std::optional<size_t> RankTasks::over_network(int rank, double bytes, double delays, const std::vector<size_t>& after) {
  const auto& net = step_.planned.emulation.network;
  if (!net) return std::nullopt;
  return add(rank, kLink, TaskKind::kMessage,
             {.work = Work::of(bytes / net->bytes_per_second),
              .cores = 0,
              .latency = delays * 1e-9 * static_cast<double>(net->delay_ns),
              .after = after});
}

std::vector<size_t> RankTasks::collective(Collective kind, const std::vector<int>& ranks, double bytes,
                                          const std::vector<size_t>& after, double more, Stream stream) {
  const double seconds = step_.costs.collective_seconds(kind, bytes, static_cast<int>(ranks.size())) + more;
  const double cores = step_.costs.collective_cores(kind, static_cast<int>(ranks.size()));
  const auto count = static_cast<double>(ranks.size());
  std::vector<size_t> done;
  for (const int rank : ranks) {
    done.push_back(add(rank, stream, TaskKind::kSum, {.work = Work::of(seconds), .cores = cores, .after = after}));
    const double passes = MachineCosts::is_sum(kind) ? 2 : 1;  // around the ring
    if (const auto link = over_network(rank, passes * bytes * (count - 1) / count, passes * (count - 1), after))
      done.push_back(*link), result_.kinds[*link] = TaskKind::kSum;
  }
  return done;
}

Work RankTasks::block_work(Operation::Kind kind, size_t block, int part, bool is_last) const {
  using enum Operation::Kind;
  if (!pass_) {
    const auto& shape = step_.shape;
    return Work::of(1e-9 * static_cast<double>(step_.planned.emulation.step_ns) * thirds_of(kind) /
                    (3.0 * static_cast<double>(step_.block_count()) * shape.plan.mesh.data * shape.plan.mesh.replicas *
                     shape.plan.schedule.micro_batches));
  }
  const BlockWork& one = pass_->blocks[block];
  const Work joined = is_last ? one.joined * static_cast<double>(step_.shape.plan.schedule.micro_batches) : Work{};
  if (kind == kForward) return one.forward;
  if (kind == kBackward) return one.backward + joined;
  // The first part needs no gradient of its input, so that its second half is all of it.
  if (kind == kInputGradient) return part == 0 ? Work{} : one.input_gradient;
  return (part == 0 ? one.backward : one.weight_gradient) + joined;
}

}  // namespace penstock::detail
