// EmulatedStep: waits until points in time, so that the time that messages cost here is not added.
#include "train/parallel/engine/emulated_step.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "train/parallel/engine/step_config.h"

namespace penstock::detail {
namespace {

void sleep_till(int64_t ns) {
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns)));
}

EmulatedWork work_of(const StepParts& parts, const Emulation& emulation) {
  const auto& config = parts.config;
  EmulatedWork work{.step_ns = emulation.step_ns,
                    .shares = int64_t{config.mesh.data} * config.mesh.replicas,
                    .micro_batches = config.micro_batches,
                    .rank = parts.pipe_rank,
                    .placement = config.placement,
                    .schedule = config.schedule,
                    .chunks = parts.part.chunks(),
                    .net = emulation.network};
  for (const auto& [name, parameter] : parts.part.parameters())
    work.replica_bytes += static_cast<int64_t>(parameter.nbytes()) * (config.mesh.replicas - 1);
  return work;
}

}  // namespace

int64_t operation_ns(const EmulatedWork& work, size_t block_count, const Operation& operation) {
  const auto& chunk = work.chunks[static_cast<size_t>(operation.chunk)];
  const bool is_forward = operation.kind == Operation::Kind::kForward;
  const int thirds =
      (operation.kind == Operation::Kind::kBackward ? 2 : 1) + (operation.recomputes && !is_forward ? 1 : 0);
  return work.step_ns * thirds * static_cast<int64_t>(chunk.end - chunk.first) /
         (3 * static_cast<int64_t>(block_count) * work.shares * work.micro_batches);
}

EmulatedStep::EmulatedStep(const StepParts& parts, const Emulation& emulation, std::unique_ptr<StepRunner> real)
    : part_(parts.part),
      link_(parts.link),
      update_(parts.update),
      sync_(parts.sync),
      device_(parts.device),
      recorder_(parts.recorder),
      real_(std::move(real)),
      has_copies_(parts.data.world_size() > 1),
      work_(work_of(parts, emulation)),
      output_sizes_(part_.chunk_count()),
      inputs_(part_.chunk_count() * static_cast<size_t>(work_.micro_batches)),
      trained_of_block_(part_.block_count()) {
  const auto blocks = part_.blocks_of_parameters();
  size_t trained = 0;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (part_.parameters()[i].second.requires_grad()) trained_of_block_[blocks[i]].push_back(trained++);
  // Linux wakes a thread up to 50 us late, to save wake-ups, unless it asks for better: 4 % of a step of 1.2 ms.
  prctl(PR_SET_TIMERSLACK, 1UL);
}

StepSums EmulatedStep::compute_gradients(const DeviceBatch& batch) {
  auto sums = no_sums(device_);  // before the first phase, as it is no communication
  if (has_copies_) sync_.begin();
  run(link_.with_targets(batch));
  link_.finish();
  recorder_.enter(Phase::kCommunication);
  if (has_copies_) sync_.finish();
  return sums;
}

void EmulatedStep::update() {
  if (has_copies_) update_.share();
  recorder_.mark(Phase::kCommunication);
}

void EmulatedStep::run(const DeviceBatch& batch) {
  copy_to_replicas();
  const int64_t each = (batch.rows + work_.micro_batches - 1) / work_.micro_batches;
  for (const auto& operation : work_.schedule) {
    const int64_t rows = std::clamp<int64_t>(batch.count - each * operation.micro_batch, 0, each);
    // Alone, a rank takes the whole time for any batch, also for one that has fewer rows than micro-batches.
    if (rows == 0 && work_.placement.rank_count() > 1) continue;
    if (operation.kind == Operation::Kind::kForward)
      forward(batch, operation, rows);
    else
      backward(operation, rows);
  }
  copy_to_replicas();
}

void EmulatedStep::copy_to_replicas() {
  if (!work_.net || work_.replica_bytes == 0) return;
  Link link(*work_.net);
  sleep_till(link.send(now_ns(), {.bytes = work_.replica_bytes, .delays = 1}).due_ns);
  recorder_.mark(Phase::kCommunication);
}

void EmulatedStep::forward(const DeviceBatch& batch, const Operation& operation, int64_t rows) {
  const auto chunk = static_cast<size_t>(operation.chunk);
  torch::Tensor input;
  if (!part_.is_first(chunk)) {
    input = link_.receive_activation(part_of(operation), operation.micro_batch, rows);
    recorder_.mark(Phase::kBubble);
    input_of(operation) = input;
  }
  const int64_t begin_ns = now_ns();
  recorder_.enter(Phase::kForward);
  if (!part_.is_last(chunk)) find_output_sizes(chunk, input.defined() ? input : batch.images);
  sleep_till(begin_ns + operation_ns(work_, part_.block_count(), operation));
  if (!part_.is_last(chunk))
    link_.send_activation(part_of(operation), operation.micro_batch, output_like(chunk, rows).zero_());
  recorder_.mark(Phase::kForward);
}

void EmulatedStep::backward(const Operation& operation, int64_t rows) {
  const auto chunk = static_cast<size_t>(operation.chunk);
  const bool is_late_half = operation.kind == Operation::Kind::kWeightGradient;
  if (!part_.is_last(chunk) && !is_late_half) {
    link_.receive_gradient(part_of(operation), operation.micro_batch, output_like(chunk, rows));
    recorder_.mark(Phase::kBubble);
  }
  recorder_.enter(Phase::kBackward);
  wait_for_blocks(operation);
  if (!part_.is_first(chunk) && !is_late_half)
    link_.send_gradient(part_of(operation), operation.micro_batch, std::exchange(input_of(operation), {}));
  recorder_.mark(Phase::kBackward);
}

/// From the last block of the chunk to its first one, each with the gradients of its parameters at its end.
void EmulatedStep::wait_for_blocks(const Operation& operation) {
  const auto range = work_.chunks[static_cast<size_t>(operation.chunk)];
  const auto count = static_cast<int64_t>(range.end - range.first);
  const int64_t begin_ns = now_ns(), all_ns = operation_ns(work_, part_.block_count(), operation);
  for (int64_t done = 1; done <= count; ++done) {
    sleep_till(begin_ns + all_ns * done / count);
    if (!has_copies_ || operation.kind == Operation::Kind::kInputGradient) continue;
    const auto& trained = trained_of_block_[range.end - static_cast<size_t>(done)];
    for (auto parameter = trained.rbegin(); parameter != trained.rend(); ++parameter)
      sync_.gradient_is_there(*parameter);
  }
}

/// By running one row through the part, the first time.
void EmulatedStep::find_output_sizes(size_t chunk, const torch::Tensor& input) {
  if (!output_sizes_[chunk].empty()) return;
  at::NoGradGuard no_grad;
  part_.train(false);
  const auto output = part_.forward(input.narrow(0, 0, 1), chunk);
  output_sizes_[chunk] = output.sizes().slice(1).vec();
  output_options_ = output.options();
}

torch::Tensor EmulatedStep::output_like(size_t chunk, int64_t rows) const {
  auto sizes = output_sizes_[chunk];
  sizes.insert(sizes.begin(), rows);
  return torch::empty(sizes, output_options_);
}

torch::Tensor& EmulatedStep::input_of(const Operation& operation) {
  return inputs_[static_cast<size_t>(operation.chunk * work_.micro_batches + operation.micro_batch)];
}

}  // namespace penstock::detail
