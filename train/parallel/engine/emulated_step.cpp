// EmulatedStep: waits until points in time, so that the time that messages cost here is not added.
#include "train/parallel/engine/emulated_step.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/clock.h"

namespace penstock::detail {
namespace {

void sleep_till(int64_t ns) {
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns)));
}

}  // namespace

int64_t operation_ns(int64_t step_ns, const StepPlan& plan, const BlockRange& blocks, size_t block_count,
                     const Operation& operation) {
  const bool is_forward = operation.kind == Operation::Kind::kForward;
  const int thirds =
      thirds_of(operation.kind) + (operation.recomputes && !is_forward ? thirds_of(Operation::Kind::kForward) : 0);
  const int64_t shares = int64_t{plan.mesh.data} * plan.mesh.replicas;
  return step_ns * thirds * static_cast<int64_t>(blocks.end - blocks.first) /
         (3 * static_cast<int64_t>(block_count) * shares * plan.schedule.micro_batches);
}

EmulatedStep::EmulatedStep(const StepParts& parts, const Emulation& emulation, std::unique_ptr<StepRunner> real)
    : parts_(parts),
      real_(std::move(real)),
      has_copies_(parts.data.world_size() > 1),
      emulation_(emulation),
      output_sizes_(parts_.part.chunk_count()),
      inputs_(parts_.part.chunk_count() * static_cast<size_t>(parts_.plan.schedule.micro_batches)),
      trained_of_block_(parts_.part.block_count()) {
  for (const auto& [name, parameter] : parts_.part.parameters())
    replica_bytes_ += static_cast<int64_t>(parameter.nbytes()) * (parts_.plan.mesh.replicas - 1);
  const auto blocks = parts_.part.blocks_of_parameters();
  size_t trained = 0;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (parts_.part.parameters()[i].second.requires_grad()) trained_of_block_[blocks[i]].push_back(trained++);
  // Linux wakes a thread up to 50 us late, to save wake-ups, unless it asks for better: 4 % of a step of 1.2 ms.
  prctl(PR_SET_TIMERSLACK, 1UL);
}

StepSums EmulatedStep::compute_gradients(const DeviceBatch& batch) {
  auto sums = no_sums(parts_.device);  // before the first phase, as it is no communication
  if (has_copies_) parts_.sync.begin();
  run(parts_.link.with_targets(batch));
  parts_.link.finish();
  parts_.recorder.enter(Phase::kCommunication);
  if (has_copies_) parts_.sync.finish();
  return sums;
}

void EmulatedStep::update() {
  if (has_copies_) parts_.update.share();
  parts_.recorder.mark(Phase::kCommunication);
}

void EmulatedStep::run(const DeviceBatch& batch) {
  copy_to_replicas();
  const int64_t each = (batch.rows + parts_.plan.schedule.micro_batches - 1) / parts_.plan.schedule.micro_batches;
  for (const auto& operation : parts_.schedule) {
    const int64_t rows = std::clamp<int64_t>(batch.count - each * operation.micro_batch, 0, each);
    // Alone, a rank takes the whole time for any batch, also for one that has fewer rows than micro-batches.
    if (rows == 0 && parts_.placement.rank_count() > 1) continue;
    if (operation.kind == Operation::Kind::kForward)
      forward(batch, operation, rows);
    else
      backward(operation, rows);
  }
  copy_to_replicas();
}

void EmulatedStep::copy_to_replicas() {
  if (!emulation_.network || replica_bytes_ == 0) return;
  Link link(*emulation_.network);
  sleep_till(link.send(now_ns(), {.bytes = replica_bytes_, .delays = 1}).due_ns);
  parts_.recorder.mark(Phase::kCommunication);
}

void EmulatedStep::forward(const DeviceBatch& batch, const Operation& operation, int64_t rows) {
  const auto chunk = static_cast<size_t>(operation.chunk);
  torch::Tensor input;
  if (!parts_.part.is_first(chunk)) {
    input = parts_.link.receive_activation(part_of(operation), operation.micro_batch, rows);
    parts_.recorder.mark(Phase::kBubble);
    input_of(operation) = input;
  }
  const int64_t begin_ns = now_ns();
  parts_.recorder.enter(Phase::kForward);
  if (!parts_.part.is_last(chunk)) find_output_sizes(chunk, input.defined() ? input : batch.images);
  sleep_till(begin_ns +
             operation_ns(emulation_.step_ns, parts_.plan, blocks_of(operation), parts_.part.block_count(), operation));
  if (!parts_.part.is_last(chunk))
    parts_.link.send_activation(part_of(operation), operation.micro_batch, output_like(chunk, rows).zero_());
  parts_.recorder.mark(Phase::kForward);
}

void EmulatedStep::backward(const Operation& operation, int64_t rows) {
  const auto chunk = static_cast<size_t>(operation.chunk);
  const bool is_late_half = operation.kind == Operation::Kind::kWeightGradient;
  if (!parts_.part.is_last(chunk) && !is_late_half) {
    parts_.link.receive_gradient(part_of(operation), operation.micro_batch, output_like(chunk, rows));
    parts_.recorder.mark(Phase::kBubble);
  }
  parts_.recorder.enter(Phase::kBackward);
  wait_for_blocks(operation);
  if (!parts_.part.is_first(chunk) && !is_late_half)
    parts_.link.send_gradient(part_of(operation), operation.micro_batch, std::exchange(input_of(operation), {}));
  parts_.recorder.mark(Phase::kBackward);
}

/// From the last block of the chunk to its first one, each with the gradients of its parameters at its end.
void EmulatedStep::wait_for_blocks(const Operation& operation) {
  const auto& range = blocks_of(operation);
  const auto count = static_cast<int64_t>(range.end - range.first);
  const int64_t begin_ns = now_ns(), all_ns = operation_ns(emulation_.step_ns, parts_.plan, blocks_of(operation),
                                                           parts_.part.block_count(), operation);
  for (int64_t done = 1; done <= count; ++done) {
    sleep_till(begin_ns + all_ns * done / count);
    if (!has_copies_ || operation.kind == Operation::Kind::kInputGradient) continue;
    const auto& trained = trained_of_block_[range.end - static_cast<size_t>(done)];
    for (auto parameter = trained.rbegin(); parameter != trained.rend(); ++parameter)
      parts_.sync.gradient_is_there(*parameter);
  }
}

/// By running one row through the part, the first time.
void EmulatedStep::find_output_sizes(size_t chunk, const torch::Tensor& input) {
  if (!output_sizes_[chunk].empty()) return;
  at::NoGradGuard no_grad;
  parts_.part.train(false);
  const auto output = parts_.part.forward(input.narrow(0, 0, 1), chunk);
  output_sizes_[chunk] = output.sizes().slice(1).vec();
  output_options_ = output.options();
}

torch::Tensor EmulatedStep::output_like(size_t chunk, int64_t rows) const {
  auto sizes = output_sizes_[chunk];
  sizes.insert(sizes.begin(), rows);
  return torch::empty(sizes, output_options_);
}

torch::Tensor& EmulatedStep::input_of(const Operation& operation) {
  return inputs_[static_cast<size_t>(operation.chunk * parts_.plan.schedule.micro_batches + operation.micro_batch)];
}

}  // namespace penstock::detail
