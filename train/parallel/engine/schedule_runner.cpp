// ScheduleRunner: the operations of a schedule.
#include "train/parallel/engine/schedule_runner.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "train/parallel/replicas/replicas.h"
#include "train/parallel/strategy/step_taps.h"
#include "train/tensor/ordered_sum.h"

namespace penstock::detail {

ScheduleRunner::ScheduleRunner(const StepParts& parts, std::unique_ptr<MicroBatchObserver> observer,
                               const StepOptions& step, uint64_t seed)
    : parts_(parts),
      micro_batches_(parts.plan.schedule.micro_batches),
      observer_(std::move(observer)),
      loss_(loss_of(step)),
      leaves_out_single_rows_(step.leaves_out_single_rows),
      seed_(seed),
      trained_(values(parts_.part.trained())),
      losses_(static_cast<size_t>(micro_batches_ * (parts_.replicas ? parts_.replicas->count() : 1))),
      alive_(parts_.part.chunk_count() * static_cast<size_t>(micro_batches_)) {}

StepSums ScheduleRunner::compute_gradients(const DeviceBatch& given) {
  const DeviceBatch batch = without_single_row(given);
  replicated_rows_ = parts_.plan.mesh.micro_shards > 0 ? full_rows_of(given) : given.count;
  parts_.sync.begin();
  observer_->begin(batch);
  auto sums = run(parts_.link.with_targets(batch));
  parts_.link.finish();
  parts_.recorder.enter(Phase::kCommunication);
  parts_.sync.finish();
  observer_->finish();
  if (parts_.taps) parts_.taps->after_sum(parts_.part.trained(), parts_.update);
  sums.compression_error = parts_.sync.compression_error();
  parts_.recorder.mark(Phase::kCommunication);
  return sums;
}

void ScheduleRunner::update() {
  parts_.update.step();
  parts_.recorder.mark(Phase::kOptimizer);
  if (parts_.taps) parts_.taps->after_update(parts_.part.trained(), parts_.update);
  parts_.update.share();
  if (parts_.taps) parts_.taps->after_share(parts_.part.trained(), parts_.part.buffers());
  parts_.recorder.mark(Phase::kCommunication);
}

std::string ScheduleRunner::capture_obstacle() const {
  if (parts_.part.has_drops())
    return "the model drops a share of its inputs, by masks that the processor makes for every step; expected none";
  if (parts_.plan.mesh.micro_shards > 0)
    return "--exact computes the shards of a batch one by one; expected no --exact";
  return parts_.plan.can_be_captured ? "" : "this mode's cannot be captured; expected --mode single";
}

StepSums ScheduleRunner::run(const DeviceBatch& batch) {
  StepSums sums;
  const auto last = last_of_chunks(batch);
  weight_gradients_.clear();
  for (const auto& operation : parts_.schedule) {
    const Rows rows = rows_of(batch, operation.micro_batch);
    if (!runs(batch, rows)) continue;
    const bool is_backward = operation.kind != Operation::Kind::kForward;
    if (is_backward) parts_.sync.begin_backward(operation.micro_batch);
    if (is_backward)
      weight_gradients_.begin_backward(
          parts_.plan.mesh.micro_shards > 0 ||
          (!parts_.sync.defers_weight_gradients() && last[static_cast<size_t>(operation.chunk)] == &operation));
    switch (operation.kind) {
      case Operation::Kind::kForward:
        forward(batch, operation, rows);
        break;
      case Operation::Kind::kBackward:
      case Operation::Kind::kInputGradient:
        backward(batch, operation, rows, sums);
        break;
      case Operation::Kind::kWeightGradient:
        weight_gradient(batch, operation, rows);
        break;
    }
    if (is_backward) parts_.sync.end_backward();
  }
  if (!weight_gradients_.empty()) {
    parts_.recorder.enter(Phase::kBackward);
    weight_gradients_.finish();
    parts_.recorder.mark(Phase::kBackward);
  }
  if (!sums.correct.defined()) return no_sums(parts_.device);
  sums.loss = take_loss();
  return sums;
}

/// A micro-batch of replicas has a shard for each of them.
std::vector<int64_t> ScheduleRunner::shard_rows(int64_t rows) const {
  if (!parts_.replicas || parts_.plan.mesh.micro_shards == 0) return {rows};
  std::vector<int64_t> list;
  for (int replica = 0; replica < parts_.replicas->count(); ++replica)
    if (const int64_t own = parts_.replicas->row_count(replica); own > 0) list.push_back(own);
  return list;
}

/// The first shards have rows, so that the one after them, if there is one, has none.
void ScheduleRunner::put_loss(int micro_batch, const Alive& alive) {
  const auto rows = shard_rows(alive.losses.size(0));
  const size_t first = losses_.size() / static_cast<size_t>(micro_batches_) * static_cast<size_t>(micro_batch);
  if (rows.size() == 1) {
    losses_[first] = alive.output.detach().to(torch::kFloat64);
    return;
  }
  const auto shards = alive.losses.split_with_sizes(rows);
  for (size_t shard = 0; shard < shards.size(); ++shard)
    losses_[first + shard] = shards[shard].sum().to(torch::kFloat64);
}

/// weight * loss of each row. Shards have theirs one by one, as everywhere else: kernels compute the elements that do
/// not fill a vector in another way, and which those are depends on how many rows there are.
torch::Tensor ScheduleRunner::losses_of(const torch::Tensor& outputs, const DeviceBatch& wanted) const {
  const auto rows = shard_rows(wanted.rows);
  if (rows.size() == 1) return loss_->of_rows(outputs, wanted) * wanted.weights;
  std::vector<torch::Tensor> losses;
  int64_t first = 0;
  for (const auto& shard : outputs.split_with_sizes(rows)) {
    losses.push_back(loss_->of_rows(shard, wanted.narrow(first, shard.size(0))));
    first += shard.size(0);
  }
  return torch::cat(losses) * wanted.weights;
}

/// Those without rows are the last ones, so that what is left of the tree is the same as with zeros.
torch::Tensor ScheduleRunner::take_loss() {
  std::vector<torch::Tensor> given;
  for (auto& loss : losses_)
    if (loss.defined()) given.push_back(std::exchange(loss, {}));
  at::NoGradGuard no_grad;
  return pairwise_sum(given);
}

std::vector<const Operation*> ScheduleRunner::last_of_chunks(const DeviceBatch& batch) const {
  std::vector<const Operation*> last(parts_.part.chunk_count(), nullptr);
  for (const auto& operation : parts_.schedule) {
    const bool adds =
        operation.kind == Operation::Kind::kBackward || operation.kind == Operation::Kind::kWeightGradient;
    if (adds && runs(batch, rows_of(batch, operation.micro_batch)))
      last[static_cast<size_t>(operation.chunk)] = &operation;
  }
  return last;
}

/// With --exact in the micro-batches of training, so that kernels see the same rows at every rank.
torch::Tensor ScheduleRunner::evaluate(const DeviceBatch& batch) {
  const int pieces = parts_.plan.mesh.micro_shards > 0 ? micro_batches_ : 1;
  const int64_t each = (batch.rows + pieces - 1) / pieces;
  replicated_rows_ = each;
  std::vector<torch::Tensor> outputs;
  for (int piece = 0; piece * each < batch.rows; ++piece) {
    const Rows rows{piece * each, std::min(each, batch.rows - piece * each)};
    auto output = evaluate(batch, piece, rows);
    if (output.defined()) outputs.push_back(std::move(output));
  }
  if (outputs.empty()) return {};
  return outputs.size() == 1 ? outputs.front() : torch::cat(outputs);
}

torch::Tensor ScheduleRunner::evaluate(const DeviceBatch& batch, int piece, const Rows& rows) {
  torch::Tensor output;
  for (int chunk = 0; chunk < static_cast<int>(parts_.part.chunk_count()); ++chunk) {
    const int part = parts_.placement.part_of(parts_.pipe_rank, chunk);
    output = run_part(part == 0 ? batch.images.narrow(0, rows.first, rows.count)
                                : parts_.link.receive_activation(part, piece, rows.count),
                      chunk, std::nullopt);
    if (parts_.part.is_last(chunk)) return output;
    parts_.link.send_activation(part, piece, output);
  }
  return {};
}

bool ScheduleRunner::runs(const DeviceBatch& batch, const Rows& rows) const {
  return rows.count > 0 || (parts_.spans_ranks && batch.global_count > 0);
}

/// The last row becomes a padding row where it would go through the model alone, and all rows where each would.
DeviceBatch ScheduleRunner::without_single_row(const DeviceBatch& batch) const {
  if (!leaves_out_single_rows_ || parts_.spans_ranks) return batch;
  int64_t together = full_rows_of(batch);
  const int64_t replicas = parts_.replicas ? parts_.replicas->count() : 1;
  if (replicas > 1) together = ((parts_.plan.mesh.micro_shards > 0 ? together : batch.count) + replicas - 1) / replicas;
  DeviceBatch left = batch;
  if (together < 2)
    left.count = 0;
  else if (batch.count % together == 1)
    --left.count;
  return left;
}

int64_t ScheduleRunner::full_rows_of(const DeviceBatch& batch) const {
  return (batch.rows + micro_batches_ - 1) / micro_batches_;
}

ScheduleRunner::Rows ScheduleRunner::rows_of(const DeviceBatch& batch, int micro_batch) const {
  const int64_t each = full_rows_of(batch);
  const int64_t first = std::min(each * micro_batch, batch.count);
  return {first, std::min(each, batch.count - first)};
}

ScheduleRunner::Alive& ScheduleRunner::alive_of(const Operation& operation) {
  return alive_[static_cast<size_t>(operation.chunk * micro_batches_ + operation.micro_batch)];
}

/// `rows`: which those of `input` are, in training.
torch::Tensor ScheduleRunner::run_part(const torch::Tensor& input, size_t chunk, const std::optional<BatchRows>& rows) {
  const WeightGradients::Scope scope(joins_weight_gradients() ? &weight_gradients_ : nullptr);
  if (parts_.replicas) return parts_.replicas->forward(input, replicated_rows_, rows);
  const RowScope row_scope(rows);
  return parts_.part.forward(input, chunk);
}

void ScheduleRunner::keep_graph(Alive& alive, const torch::Tensor& output) {
  alive.output = output;
  most_alive_ = std::max(most_alive_, ++alive_count_);
}

/// At the last part: the sum of weight * loss.
torch::Tensor ScheduleRunner::output_of(const DeviceBatch& batch, const Operation& operation, const Rows& rows,
                                        Alive& alive) {
  parts_.part.train(true);
  const auto input = alive.input.defined() ? alive.input : batch.images.narrow(0, rows.first, rows.count);
  const BatchRows places{seed_, batch.epoch, batch.first_position + static_cast<uint64_t>(rows.first)};
  const auto output = run_part(input, operation.chunk, places);
  if (!parts_.part.is_last(operation.chunk)) return output;
  alive.logits = parts_.replicas ? output : output.detach();
  const auto wanted = batch.narrow(rows.first, rows.count);
  const auto losses = losses_of(output, wanted);
  alive.losses = losses.detach();
  return losses.sum();
}

void ScheduleRunner::forward(const DeviceBatch& batch, const Operation& operation, const Rows& rows) {
  Alive& alive = alive_of(operation);
  if (!parts_.part.is_first(operation.chunk)) {
    alive.input =
        parts_.link.receive_activation(part_of(operation), operation.micro_batch, rows.count).requires_grad_();
    parts_.recorder.mark(Phase::kBubble);
  }
  observer_->before_forward(operation.micro_batch);
  parts_.recorder.enter(Phase::kForward);
  torch::Tensor output;
  if (operation.recomputes) {
    alive.random.emplace(parts_.device).keep();
    at::NoGradGuard no_grad;
    output = output_of(batch, operation, rows, alive);
  } else {
    output = output_of(batch, operation, rows, alive);
    keep_graph(alive, output);
  }
  observer_->after_forward(operation.micro_batch, rows.count);
  if (!parts_.part.is_last(operation.chunk))
    parts_.link.send_activation(part_of(operation), operation.micro_batch, output);
  parts_.recorder.mark(Phase::kForward);
}

void ScheduleRunner::recompute_forward(const DeviceBatch& batch, const Operation& operation, const Rows& rows,
                                       Alive& alive) {
  observer_->before_recompute(operation.micro_batch);
  parts_.recorder.enter(Phase::kForward);
  const RecomputedForward rerun(*alive.random, parts_.part.buffers(), parts_.device);
  keep_graph(alive, output_of(batch, operation, rows, alive));
  parts_.recorder.mark(Phase::kForward);
}

torch::Tensor ScheduleRunner::gradient_of_output(const DeviceBatch& batch, const Operation& operation,
                                                 const Alive& alive) {
  if (parts_.part.is_last(operation.chunk))
    return torch::full_like(alive.output, 1.0 / static_cast<double>(batch.global_count));
  auto gradient = parts_.link.receive_gradient(part_of(operation), operation.micro_batch, alive.output);
  parts_.recorder.mark(Phase::kBubble);
  return gradient;
}

void ScheduleRunner::backward(const DeviceBatch& batch, const Operation& operation, const Rows& rows, StepSums& sums) {
  Alive& alive = alive_of(operation);
  if (operation.recomputes) recompute_forward(batch, operation, rows, alive);
  const auto gradient = gradient_of_output(batch, operation, alive);
  parts_.recorder.enter(Phase::kBackward);
  const bool is_first = parts_.part.is_first(operation.chunk);
  if (operation.kind == Operation::Kind::kBackward) {
    if (alive.output.requires_grad()) alive.output.backward(gradient);  // everything up to here may be frozen
    if (parts_.replicas) parts_.replicas->backward(alive.logits.grad());
  } else if (is_first) {
    alive.gradient = gradient;
  } else {
    alive.rest.emplace(alive.output, gradient, alive.input);
  }
  if (parts_.part.is_last(operation.chunk)) {
    const auto correct = hits(alive.logits, batch.narrow(rows.first, rows.count));
    put_loss(operation.micro_batch, alive);
    sums.correct = sums.correct.defined() ? sums.correct + correct : correct;
    sums.count += rows.count;
  }
  if (!is_first) parts_.link.send_gradient(part_of(operation), operation.micro_batch, alive.input.grad());
  if (operation.kind == Operation::Kind::kBackward) {
    alive = {};
    --alive_count_;
  }
  parts_.recorder.mark(Phase::kBackward);
}

void ScheduleRunner::weight_gradient(const DeviceBatch& batch, const Operation& operation, const Rows& rows) {
  Alive alive = std::exchange(alive_of(operation), {});
  --alive_count_;
  parts_.recorder.enter(Phase::kBackward);
  if (parts_.taps)
    parts_.taps->before_weight_gradient(batch.first_position + static_cast<uint64_t>(rows.first), rows.count);
  if (alive.rest)
    alive.rest->finish(trained_);
  else if (alive.output.requires_grad())
    alive.output.backward(alive.gradient);
  if (parts_.taps) parts_.taps->after_weight_gradient();
  parts_.recorder.mark(Phase::kBackward);
}

}  // namespace penstock::detail
