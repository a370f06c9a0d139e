// Step tasks: what depends on what.
#include "train/parallel/plan/step_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/plan/lockstep_pass.h"
#include "train/parallel/plan/update_tasks.h"

namespace penstock::detail {
namespace {

using enum Operation::Kind;

class StepBuilder {
 public:
  explicit StepBuilder(const StepCase& step)
      : tasks_(step), step_(step), planned_(step.planned), shape_(step.shape), costs_(step.costs) {}

  StepTasks build(int steps) {
    for (int step = 1; step <= steps; ++step)
      add_step(/*meets=*/shape_.local_steps() > 0 && step % shape_.local_steps() == 0);
    return std::move(tasks_.tasks());
  }

 private:
  int rank_count() const { return step_.rank_count(); }
  const Schedule& schedule_of(int rank) const {
    return shape_.placed.ranks[static_cast<size_t>(shape_.plan.mesh.pipe_rank(rank))];
  }
  void add_step(bool meets) {
    start_of_rank_.clear();
    for (int rank = 0; rank < rank_count(); ++rank) start_of_rank_.push_back(begin_rank(rank));
    if (shape_.plan.mesh.replicas > 1) return add_replicas();
    if (shape_.in_lockstep()) return vote(add_update(tasks_, add_lockstep_pass(tasks_)));
    messages_.clear();
    gradients_.clear();
    activations_.clear();
    last_gradient_.assign(static_cast<size_t>(rank_count()), std::nullopt);
    pending_.assign(static_cast<size_t>(rank_count()), {});
    for (int copy = 0; copy < shape_.plan.mesh.data; ++copy)
      add_operations(shape_.placed.ranks, [&](size_t rank, size_t place) {
        return add_operation(shape_.plan.mesh.rank(copy, static_cast<int>(rank)), place);
      });
    vote(add_update(tasks_, {.pending = pending_, .meets = meets}));
  }

  /// Its batch, and gradients that are 0.
  size_t begin_rank(int rank) {
    std::vector<size_t> after = load(rank);
    after.insert(after.end(), due_votes_.begin(), due_votes_.end());
    const bool has_gradients = step_.has_copies() && shape_.plan.sharded.stage() < 3 && !step_.is_emulated();
    const double bytes = has_gradients ? step_.trained_bytes(rank) : 0;
    return tasks_.compute(rank, costs_.touch * bytes, std::move(after));
  }

  /// What the first operation of the step needs.
  std::vector<size_t> load(int rank) {
    if (shape_.plan.mesh.pipe_rank(rank) != 0) return {};
    const double rows =
        static_cast<double>(shape_.rows * shape_.plan.schedule.micro_batches * shape_.plan.mesh.replicas);
    const Work batch = (costs_.load + Work::of(1e-9 * static_cast<double>(planned_.emulation.load_ns))) * rows;
    if (planned_.workers == 0) {
      tasks_.add(rank, kTraining, TaskKind::kLoad, {.work = batch});
      return {};
    }
    auto& taken = taken_[rank];
    const auto ahead = static_cast<size_t>(planned_.prefetch) + 1;
    std::vector<size_t> made;
    for (int worker = 0; worker < planned_.workers; ++worker) {
      std::vector<size_t> after;
      if (taken.size() >= ahead) after.push_back(taken[taken.size() - ahead]);
      made.push_back(tasks_.add(rank, kFirstWorker + static_cast<size_t>(worker), TaskKind::kLoad,
                                {.work = batch * (1.0 / planned_.workers), .after = std::move(after)}));
    }
    taken.push_back(tasks_.wait_for(rank, made));
    return {};
  }

  /// No later operation adds to the gradients of the same part.
  static bool is_last_of_chunk(const Schedule& schedule, size_t place) {
    return std::none_of(
        schedule.begin() + static_cast<std::ptrdiff_t>(place) + 1, schedule.end(), [&](const auto& later) {
          return later.chunk == schedule[place].chunk && (later.kind == kBackward || later.kind == kWeightGradient);
        });
  }

  bool is_at(int rank, int part) const {
    return shape_.placed.placement.rank_of(part) == shape_.plan.mesh.pipe_rank(rank);
  }
  int last_part() const { return shape_.placed.placement.part_count() - 1; }

  /// False: what it needs was not added yet.
  bool add_operation(int rank, size_t place) {
    const Operation& operation = schedule_of(rank)[place];
    const int part = shape_.placed.placement.part_of(shape_.plan.mesh.pipe_rank(rank), operation.chunk);
    const int parts_before = shape_.plan.mesh.data_rank(rank) * shape_.placed.placement.part_count();
    const auto key = [&](int of) { return std::pair(parts_before + of, operation.micro_batch); };
    const BlockRange blocks = shape_.plan.stages[static_cast<size_t>(part)];
    if (operation.kind == kForward) {
      const bool takes = part > 0 && !is_at(rank, part - 1);
      if (takes && !activations_.contains(key(part))) return false;
      const auto input = takes ? receive(rank, activations_[key(part)]) : std::vector<size_t>();
      const size_t task = tasks_.compute(rank, work_of(kForward, blocks, part), input);
      if (part < last_part() && !is_at(rank, part + 1)) activations_[key(part + 1)] = send(rank, part, task);
      return true;
    }
    const bool takes = operation.kind != kWeightGradient && part < last_part() && !is_at(rank, part + 1);
    if (takes && !gradients_.contains(key(part))) return false;
    if (operation.recomputes && operation.kind != kWeightGradient)
      tasks_.compute(rank, work_of(kForward, blocks, part));
    const size_t task =
        add_backward(rank, place, blocks, part, takes ? receive(rank, gradients_[key(part)]) : std::vector<size_t>());
    if (operation.kind != kWeightGradient && part > 0 && !is_at(rank, part - 1))
      gradients_[key(part - 1)] = send_gradient(rank, part, task);
    return true;
  }

  Work work_of(Operation::Kind kind, const BlockRange& blocks, int part, bool is_last = false) const {
    Work work;
    for (size_t block = blocks.first; block < blocks.end; ++block)
      work += tasks_.block_work(kind, block, part, is_last);
    if (kind == kForward && blocks.end == step_.block_count()) work += tasks_.loss_work();
    return work;
  }

  /// From the last block to the first one, where sums wait for the gradients of each; otherwise in one.
  size_t add_backward(int rank, size_t place, const BlockRange& blocks, int part, std::vector<size_t> after) {
    const Operation& operation = schedule_of(rank)[place];
    const bool adds = operation.kind != kInputGradient, is_last = is_last_of_chunk(schedule_of(rank), place);
    if (!step_.has_copies() || !adds)
      return tasks_.compute(rank, work_of(operation.kind, blocks, part, is_last), std::move(after));
    size_t task = 0;
    for (size_t block = blocks.end; block-- > blocks.first; after.clear()) {
      auto work = tasks_.block_work(operation.kind, block, part, is_last);
      if (is_last) work += packing_work(step_, block);
      task = tasks_.compute(rank, work, after);
      pending_[static_cast<size_t>(rank)][block] = task;
    }
    return task;
  }

  /// The bytes of a part's output, of one micro-batch.
  double output_bytes(int part) const {
    const size_t last = shape_.plan.stages[static_cast<size_t>(part)].end - 1;
    return costs_.output_bytes[last] * static_cast<double>(shape_.rows);
  }

  /// What was sent, and has arrived when `arrived` is done.
  struct Message {
    size_t task = 0;  // after which it was sent
    double bytes = 0;
    std::optional<size_t> link = {};   // of an emulated network
    std::vector<size_t> arrived = {};  // none: nobody has asked for it yet
    std::vector<size_t> waiting = {};  // tasks that wait for it to arrive
  };

  /// The output of `part`, or its gradient.
  size_t send(int rank, int part, size_t task) {
    const double bytes = output_bytes(part);
    messages_.push_back({.task = task, .bytes = bytes, .link = tasks_.over_network(rank, bytes, 1, {task})});
    return messages_.size() - 1;
  }

  /// Gloo moves the bytes of a message when the receiver has asked for it, so that they hide behind nothing.
  std::vector<size_t> receive(int rank, size_t number) {
    Message& message = messages_[number];
    const double seconds = costs_.message.at(message.bytes);
    message.arrived.push_back(
        tasks_.add(rank, kMessages, TaskKind::kMessage,
                   {.work = Work::of(seconds),
                    .cores = costs_.message.cores,
                    .after = {message.task, tasks_.tasks().of_ranks[static_cast<size_t>(rank)].back()}}));
    if (message.link) message.arrived.push_back(*message.link);
    for (const size_t task : message.waiting) {
      auto& after = tasks_.tasks().tasks[task].after;
      after.insert(after.end(), message.arrived.begin(), message.arrived.end());
    }
    return message.arrived;
  }

  /// As StageLink does it: before a gradient is sent, the rank waits for the one before it to arrive.
  size_t send_gradient(int rank, int part, size_t task) {
    auto& last = last_gradient_[static_cast<size_t>(rank)];
    if (last) {
      task = tasks_.wait_for(rank, messages_[*last].arrived);
      if (messages_[*last].arrived.empty()) messages_[*last].waiting.push_back(task);
    }
    last = send(rank, part - 1, task);
    return *last;
  }

  /// By which ranks agree to go on, after the last task of each. A rank waits for that of the step before.
  void vote(const std::vector<size_t>& ends) {
    due_votes_ = std::exchange(votes_, {});
    tasks_.tasks().last_tasks.push_back(ends);
    if (rank_count() == 1) return;
    constexpr auto kVote = RankTasks::Collective::kVote;
    for (int rank = 0; rank < rank_count(); ++rank)
      votes_.push_back(tasks_.add(rank, kMessages, TaskKind::kSum,
                                  {.work = Work::of(costs_.collective_seconds(kVote, /*bytes=*/0, rank_count())),
                                   .cores = costs_.collective_cores(kVote, rank_count()),
                                   .after = ends}));
  }

  /// One rank, whose threads have a copy of the model each. They add gradients and update a share each.
  void add_replicas() {
    const auto replicas = static_cast<size_t>(shape_.plan.mesh.replicas);
    const bool is_emulated = step_.is_emulated();
    const BlockRange blocks = shape_.plan.stages.front();
    const auto on_each = [&](const Work& work, size_t after) {
      std::vector<size_t> done;
      for (size_t replica = 0; replica < replicas; ++replica)
        done.push_back(tasks_.add(0, kFirstWorker + static_cast<size_t>(planned_.workers) + replica, TaskKind::kCompute,
                                  {.work = work, .cores = is_emulated ? 0.0 : 1.0, .after = {after}}));
      return tasks_.wait_for(0, done);
    };
    size_t last = start_of_rank_.front();
    if (is_emulated) last = copy_to_replicas(last);
    Work forward;
    for (size_t block = blocks.first; block < blocks.end; ++block)
      forward += tasks_.block_work(kForward, block, 0, true);
    last = on_each(forward, last);
    if (!is_emulated) last = tasks_.compute(0, tasks_.loss_work() * static_cast<double>(replicas));
    last = on_each(work_of(kBackward, blocks, 0, /*is_last=*/true), last);
    if (is_emulated) last = copy_to_replicas(last);
    const double bytes = step_.trained_bytes(0), share = 1.0 / static_cast<double>(replicas);
    // Each adds its share of all replicas' gradients, and changes its share of the parameters.
    if (!is_emulated) last = on_each(costs_.touch * bytes + costs_.update * (bytes * share), last);
    vote({last});
  }

  /// EmulatedStep waits for the parameters to go to the other replicas, and for the gradients to come back.
  size_t copy_to_replicas(size_t after) {
    double bytes = 0;
    for (const auto& one : step_.parameters) bytes += static_cast<double>(one.bytes) * (shape_.plan.mesh.replicas - 1);
    const auto link = tasks_.over_network(0, bytes, 1, {after});
    return link ? tasks_.wait_for(0, {*link}) : after;
  }

  RankTasks tasks_;
  const StepCase& step_;
  const PlannedMode& planned_;
  const StepShape& shape_;
  const MachineCosts& costs_;
  std::vector<size_t> start_of_rank_, votes_, due_votes_;
  std::map<int, std::vector<size_t>> taken_;  // by rank: when its batches were taken
  std::vector<Message> messages_;
  std::map<std::pair<int, int>, size_t> activations_, gradients_;  // messages by copy and part, and micro-batch
  std::vector<std::optional<size_t>> last_gradient_;               // one entry per rank: the message
  GradientTasks pending_;
};

}  // namespace

StepTasks tasks_of(const StepCase& step, int steps) { return StepBuilder(step).build(steps); }

}  // namespace penstock::detail
