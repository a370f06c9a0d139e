// Step tasks: what depends on what.
#include "train/parallel/plan/step_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace penstock::detail {
namespace {

using enum Operation::Kind;
using Collective = MachineCosts::Collective;

/// Streams of a rank; those of workers and of replicas follow.
enum Stream : size_t { kTraining, kSums, kMessages, kLink, kFirstWorker };

class StepBuilder {
 public:
  StepBuilder(const PlannedMode& planned, const StepShape& shape, const MachineCosts& costs,
              const std::vector<ParameterFacts>& parameters)
      : planned_(planned),
        shape_(shape),
        costs_(costs),
        parameters_(parameters),
        is_emulated_(planned.emulation.step_ns > 0),
        streams_per_rank_(kFirstWorker + static_cast<size_t>(planned.workers + shape.mesh.replicas)) {
    const int threads = std::max(1, planned.threads / shape.mesh.replicas);
    if (!is_emulated_) pass_ = costs.pass(shape.rows, threads, shape.joins(), shape.splits_backward);
    result_.of_ranks.resize(static_cast<size_t>(shape.mesh.size()));
  }

  StepTasks build(int steps) {
    for (int step = 0; step < steps; ++step) add_step();
    return std::move(result_);
  }

 private:
  int rank_count() const { return shape_.mesh.size(); }
  const Schedule& schedule_of(int rank) const {
    return shape_.schedules[static_cast<size_t>(shape_.mesh.pipe_rank(rank))];
  }
  bool has_copies() const { return shape_.mesh.data > 1; }

  size_t add(int rank, size_t stream, TaskKind kind, Task task) {
    task.stream = static_cast<size_t>(rank) * streams_per_rank_ + stream;
    result_.tasks.push_back(std::move(task));
    result_.kinds.push_back(kind);
    const size_t number = result_.tasks.size() - 1;
    if (stream == kTraining) result_.of_ranks[static_cast<size_t>(rank)].push_back(number);
    return number;
  }

  /// Ranks of a pipeline wait for each other, and with cold caches go on slower than a rank that never waits.
  size_t compute(int rank, Work work, std::vector<size_t> after = {}) {
    if (shape_.mesh.pipe > 1) work.alone = work.in_turn;
    return add(
        rank, kTraining, TaskKind::kCompute,
        {.work = work, .cores = is_emulated_ ? 0.0 : static_cast<double>(planned_.threads), .after = std::move(after)});
  }

  /// The training thread goes on when these are done.
  size_t wait_for(int rank, std::vector<size_t> after) {
    return add(rank, kTraining, TaskKind::kCompute, {.cores = 0, .after = std::move(after)});
  }

  void add_step() {
    start_of_rank_.clear();
    for (int rank = 0; rank < rank_count(); ++rank) start_of_rank_.push_back(begin_rank(rank));
    messages_.clear();
    gradients_.clear();
    activations_.clear();
    last_gradient_.assign(static_cast<size_t>(rank_count()), std::nullopt);
    pending_.assign(static_cast<size_t>(rank_count()), {});
    if (shape_.mesh.replicas > 1) return add_replicas();
    add_operations();
    const auto sums = add_sums();
    for (int rank = 0; rank < rank_count(); ++rank) end_rank(rank, sums[static_cast<size_t>(rank)]);
    if (shape_.sharded_stage > 0) add_gathers();
    vote();
  }

  /// Its batch, and gradients that are 0.
  size_t begin_rank(int rank) {
    std::vector<size_t> after = load(rank);
    after.insert(after.end(), due_votes_.begin(), due_votes_.end());
    const double bytes = has_copies() && !is_emulated_ ? trained_bytes(rank) : 0;
    return compute(rank, costs_.touch * bytes, std::move(after));
  }

  /// What the first operation of the step needs.
  std::vector<size_t> load(int rank) {
    if (shape_.mesh.pipe_rank(rank) != 0) return {};
    const double rows = static_cast<double>(shape_.rows * shape_.micro_batches * shape_.mesh.replicas);
    const Work batch = (costs_.load + Work::of(1e-9 * static_cast<double>(planned_.emulation.load_ns))) * rows;
    if (planned_.workers == 0) {
      add(rank, kTraining, TaskKind::kLoad, {.work = batch});
      return {};
    }
    auto& taken = taken_[rank];
    const auto ahead = static_cast<size_t>(planned_.prefetch) + 1;
    std::vector<size_t> made;
    for (int worker = 0; worker < planned_.workers; ++worker) {
      std::vector<size_t> after;
      if (taken.size() >= ahead) after.push_back(taken[taken.size() - ahead]);
      made.push_back(add(rank, kFirstWorker + static_cast<size_t>(worker), TaskKind::kLoad,
                         {.work = batch * (1.0 / planned_.workers), .after = std::move(after)}));
    }
    taken.push_back(wait_for(rank, made));
    return {};
  }

  /// Operations of all ranks, each rank's in its order; whatever they need is added before them.
  void add_operations() {
    std::vector<size_t> next(static_cast<size_t>(rank_count()), 0);
    for (bool moves = true; moves;) {
      moves = false;
      for (int rank = 0; rank < rank_count(); ++rank) {
        auto& place = next[static_cast<size_t>(rank)];
        while (place < schedule_of(rank).size() && add_operation(rank, place)) ++place, moves = true;
      }
    }
  }

  bool is_at(int rank, int part) const { return shape_.placement.rank_of(part) == shape_.mesh.pipe_rank(rank); }
  int last_part() const { return shape_.placement.part_count() - 1; }

  /// False: what it needs was not added yet.
  bool add_operation(int rank, size_t place) {
    const Operation& operation = schedule_of(rank)[place];
    const int part = shape_.placement.part_of(shape_.mesh.pipe_rank(rank), operation.chunk);
    const int parts_before = shape_.mesh.data_rank(rank) * shape_.placement.part_count();
    const auto key = [&](int of) { return std::pair(parts_before + of, operation.micro_batch); };
    const BlockRange blocks = shape_.ranges[static_cast<size_t>(part)];
    if (operation.kind == kForward) {
      const bool takes = part > 0 && !is_at(rank, part - 1);
      if (takes && !activations_.contains(key(part))) return false;
      const auto input = takes ? receive(rank, activations_[key(part)]) : std::vector<size_t>();
      const size_t task = compute(rank, work_of(operation, blocks, part), input);
      if (part < last_part() && !is_at(rank, part + 1)) activations_[key(part + 1)] = send(rank, part, task);
      return true;
    }
    const bool takes = operation.kind != kWeightGradient && part < last_part() && !is_at(rank, part + 1);
    if (takes && !gradients_.contains(key(part))) return false;
    if (operation.recomputes && operation.kind != kWeightGradient)
      compute(rank, work_of({.kind = kForward}, blocks, part));
    const size_t task = add_backward(rank, operation, blocks, part,
                                     takes ? receive(rank, gradients_[key(part)]) : std::vector<size_t>());
    if (operation.kind != kWeightGradient && part > 0 && !is_at(rank, part - 1))
      gradients_[key(part - 1)] = send_gradient(rank, part, task);
    return true;
  }

  Work work_of(const Operation& operation, const BlockRange& blocks, int part) const {
    Work work;
    for (size_t block = blocks.first; block < blocks.end; ++block) work += work_of_block(operation.kind, block, part);
    const bool has_loss = blocks.end == parameters_block_count();
    if (operation.kind == kForward && has_loss && !is_emulated_) work += pass_->loss;
    return work;
  }

  size_t parameters_block_count() const { return shape_.ranges.back().end; }

  Work work_of_block(Operation::Kind kind, size_t block, int part) const {
    if (is_emulated_) {
      const double thirds = kind == kBackward ? 2 : 1;
      const double seconds = 1e-9 * static_cast<double>(planned_.emulation.step_ns) * thirds /
                             (3.0 * static_cast<double>(parameters_block_count()) * shape_.mesh.data *
                              shape_.mesh.replicas * shape_.micro_batches);
      return Work::of(seconds);
    }
    const BlockWork& one = pass_->blocks[block];
    if (kind == kForward) return one.forward;
    if (kind == kBackward) return one.backward;
    // The first part needs no gradient of its input, so that its second half is all of it.
    if (part == 0) return kind == kInputGradient ? Work{} : one.backward;
    return kind == kInputGradient ? one.input_gradient : one.weight_gradient;
  }

  /// From the last block to the first one, where sums wait for the gradients of each; otherwise in one.
  size_t add_backward(int rank, const Operation& operation, const BlockRange& blocks, int part,
                      std::vector<size_t> after) {
    const bool adds = operation.kind != kInputGradient;
    if (!has_copies() || !adds) return compute(rank, work_of(operation, blocks, part), std::move(after));
    size_t task = 0;
    for (size_t block = blocks.end; block-- > blocks.first; after.clear()) {
      task = compute(rank, work_of_block(operation.kind, block, part), after);
      pending_[static_cast<size_t>(rank)][block] = task;
    }
    return task;
  }

  /// The bytes of a part's output, of one micro-batch.
  double output_bytes(int part) const {
    const size_t last = shape_.ranges[static_cast<size_t>(part)].end - 1;
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
    messages_.push_back({.task = task, .bytes = bytes, .link = over_network(rank, bytes, 1, {task})});
    return messages_.size() - 1;
  }

  /// Gloo moves the bytes of a message when the receiver has asked for it, so that they hide behind nothing.
  std::vector<size_t> receive(int rank, size_t number) {
    Message& message = messages_[number];
    const double seconds = costs_.message.at(message.bytes);
    message.arrived.push_back(add(rank, kMessages, TaskKind::kMessage,
                                  {.work = Work::of(seconds),
                                   .cores = costs_.message.cores,
                                   .after = {message.task, result_.of_ranks[static_cast<size_t>(rank)].back()}}));
    if (message.link) message.arrived.push_back(*message.link);
    for (const size_t task : message.waiting) {
      auto& after = result_.tasks[task].after;
      after.insert(after.end(), message.arrived.begin(), message.arrived.end());
    }
    return message.arrived;
  }

  /// As StageLink does it: before a gradient is sent, the rank waits for the one before it to arrive.
  size_t send_gradient(int rank, int part, size_t task) {
    auto& last = last_gradient_[static_cast<size_t>(rank)];
    if (last) {
      task = wait_for(rank, messages_[*last].arrived);
      if (messages_[*last].arrived.empty()) messages_[*last].waiting.push_back(task);
    }
    last = send(rank, part - 1, task);
    return *last;
  }

  /// What an emulated network adds to a message or a sum.
  std::optional<size_t> over_network(int rank, double bytes, double delays, const std::vector<size_t>& after) {
    const auto& net = planned_.emulation.network;
    if (!net) return std::nullopt;
    const double seconds = bytes / net->bytes_per_second;
    return add(rank, kLink, TaskKind::kMessage,
               {.work = Work::of(seconds),
                .cores = 0,
                .latency = delays * 1e-9 * static_cast<double>(net->delay_ns),
                .after = after});
  }

  double trained_bytes(int rank) const {
    return held_bytes(shape_, shape_.mesh.pipe_rank(rank), parameters_, /*only_trained=*/true);
  }

  /// Each rank's task of a collective begins when all ranks have come to it; it takes `more` seconds besides. Returns
  /// what each of them waits for.
  std::vector<size_t> collective(Collective kind, const std::vector<int>& ranks, double bytes,
                                 const std::vector<size_t>& after, double more = 0) {
    const double seconds = costs_.collective_seconds(kind, bytes, static_cast<int>(ranks.size())) + more;
    const auto count = static_cast<double>(ranks.size());
    std::vector<size_t> done;
    for (const int rank : ranks) {
      done.push_back(add(rank, kSums, TaskKind::kSum, {.work = Work::of(seconds), .after = after}));
      const double passes = kind == Collective::kGather ? 1 : 2;
      if (const auto link = over_network(rank, passes * bytes * (count - 1) / count, passes * (count - 1), after))
        done.push_back(*link), result_.kinds[*link] = TaskKind::kSum;
    }
    return done;
  }

  std::vector<int> ranks_with(int pipe_rank) const {
    std::vector<int> ranks;
    for (int copy = 0; copy < shape_.mesh.data; ++copy) ranks.push_back(shape_.mesh.rank(copy, pipe_rank));
    return ranks;
  }

  /// What each rank waits for before its update.
  std::vector<std::vector<size_t>> add_sums() {
    std::vector<std::vector<size_t>> sums(static_cast<size_t>(rank_count()));
    if (!has_copies()) return sums;
    for (int pipe_rank = 0; pipe_rank < shape_.mesh.pipe; ++pipe_rank) {
      const auto ranks = ranks_with(pipe_rank);
      double skew = is_emulated_ ? 0 : pass_->skew;  // they come to the first sum one after the other
      for (const auto& bucket : gradient_buckets(shape_, pipe_rank, parameters_)) {
        std::vector<size_t> after;
        for (const int rank : ranks)
          for (const size_t block : bucket.blocks) after.push_back(pending_[static_cast<size_t>(rank)].at(block));
        std::sort(after.begin(), after.end());
        after.erase(std::unique(after.begin(), after.end()), after.end());
        const auto done = collective(shape_.sharded_stage == 2 ? Collective::kScatter : Collective::kSum, ranks,
                                     bucket.bytes, after, std::exchange(skew, 0));
        for (const int rank : ranks) {
          auto& own = sums[static_cast<size_t>(rank)];
          own.insert(own.end(), done.begin(), done.end());
        }
      }
    }
    return sums;
  }

  void end_rank(int rank, const std::vector<size_t>& sums) {
    const double share = shape_.sharded_stage > 0 ? 1.0 / shape_.mesh.data : 1;
    Work update = costs_.update * (trained_bytes(rank) * share);
    if (shape_.sharded_stage == 2) update += costs_.touch * trained_bytes(rank);  // gradients into buckets
    if (is_emulated_) update = {};
    ends_[rank] = compute(rank, update, sums);
  }

  void add_gathers() {
    for (int pipe_rank = 0; pipe_rank < shape_.mesh.pipe; ++pipe_rank) {
      const auto ranks = ranks_with(pipe_rank);
      std::vector<size_t> after, done;
      for (const int rank : ranks) after.push_back(ends_[rank]);
      for (const auto& bucket : gradient_buckets(shape_, pipe_rank, parameters_)) {
        const auto gathered = collective(Collective::kGather, ranks, bucket.bytes, after);
        done.insert(done.end(), gathered.begin(), gathered.end());
      }
      for (const int rank : ranks) ends_[rank] = wait_for(rank, done);
    }
  }

  /// By which ranks agree to go on. A rank waits for that of the step before.
  void vote() {
    due_votes_ = std::exchange(votes_, {});
    std::vector<size_t> after;
    for (int rank = 0; rank < rank_count(); ++rank) after.push_back(ends_[rank]);
    result_.last_tasks.push_back(after);
    if (rank_count() == 1) return;
    for (int rank = 0; rank < rank_count(); ++rank)
      votes_.push_back(add(rank, kMessages, TaskKind::kSum, {.work = Work::of(costs_.vote_seconds), .after = after}));
  }

  /// One rank, whose threads have a copy of the model each. They add gradients and update a share each.
  void add_replicas() {
    const auto replicas = static_cast<size_t>(shape_.mesh.replicas);
    const BlockRange blocks = shape_.ranges.front();
    const auto on_each = [&](const Work& work, size_t after) {
      std::vector<size_t> done;
      for (size_t replica = 0; replica < replicas; ++replica)
        done.push_back(add(0, kFirstWorker + static_cast<size_t>(planned_.workers) + replica, TaskKind::kCompute,
                           {.work = work, .cores = is_emulated_ ? 0.0 : 1.0, .after = {after}}));
      return wait_for(0, done);
    };
    size_t last = start_of_rank_.front();
    if (is_emulated_) last = copy_to_replicas(last);
    Work forward;
    for (size_t block = blocks.first; block < blocks.end; ++block) forward += work_of_block(kForward, block, 1);
    last = on_each(forward, last);
    if (!is_emulated_) last = compute(0, pass_->loss * static_cast<double>(replicas));
    last = on_each(work_of({.kind = kBackward}, blocks, 1), last);
    if (is_emulated_) last = copy_to_replicas(last);
    const double bytes = trained_bytes(0), share = 1.0 / static_cast<double>(replicas);
    // Each adds its share of all replicas' gradients, and changes its share of the parameters.
    if (!is_emulated_) last = on_each(costs_.touch * bytes + costs_.update * (bytes * share), last);
    ends_[0] = last;
    vote();
  }

  /// EmulatedStep waits for the parameters to go to the other replicas, and for the gradients to come back.
  size_t copy_to_replicas(size_t after) {
    double bytes = 0;
    for (const auto& one : parameters_) bytes += static_cast<double>(one.bytes) * (shape_.mesh.replicas - 1);
    const auto link = over_network(0, bytes, 1, {after});
    return link ? wait_for(0, {*link}) : after;
  }

  const PlannedMode& planned_;
  const StepShape& shape_;
  const MachineCosts& costs_;
  const std::vector<ParameterFacts>& parameters_;
  bool is_emulated_;
  size_t streams_per_rank_;
  std::optional<PassCosts> pass_;  // none: the step is emulated
  StepTasks result_;
  std::vector<size_t> start_of_rank_, votes_, due_votes_;
  std::map<int, std::vector<size_t>> taken_;  // by rank: when its batches were taken
  std::map<int, size_t> ends_;                // by rank: its last task of the step
  std::vector<Message> messages_;
  std::map<std::pair<int, int>, size_t> activations_, gradients_;  // messages by copy and part, and micro-batch
  std::vector<std::optional<size_t>> last_gradient_;               // one entry per rank: the message
  std::vector<std::map<size_t, size_t>> pending_;  // one entry per rank, by block: what added to its gradients last
};

}  // namespace

StepTasks tasks_of(const PlannedMode& planned, const StepShape& shape, const MachineCosts& costs,
                   const std::vector<ParameterFacts>& parameters, int steps) {
  return StepBuilder(planned, shape, costs, parameters).build(steps);
}

}  // namespace penstock::detail
