// Replicated: forward, loss, backward, update and checkpoints of a model that every rank holds whole.
#include "train/strategies/replicated.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/text.h"
#include "train/models/model.h"

namespace penstock::detail {
namespace {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

NamedTensors named(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  NamedTensors list;
  for (const auto& item : tensors) list.emplace_back(item.key(), item.value());
  return list;
}

std::vector<torch::Tensor> values(const NamedTensors& tensors) {
  std::vector<torch::Tensor> list;
  for (const auto& [name, tensor] : tensors) list.push_back(tensor);
  return list;
}

NamedTensors trained_of(const NamedTensors& parameters) {
  NamedTensors list;
  for (const auto& item : parameters)
    if (item.second.requires_grad()) list.push_back(item);
  return list;
}

std::vector<double> factors_of(const NamedTensors& parameters, const std::map<std::string, double>& by_name) {
  std::vector<double> list;
  for (const auto& [name, tensor] : parameters) list.push_back(by_name.contains(name) ? by_name.at(name) : 1);
  return list;
}

void broadcast(Comm& comm, NamedTensors& tensors) {
  at::NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors) {
    auto data = tensor.detach();
    comm.broadcast(data, 0);
  }
}

/// The first `count` rows of a batch as the loss sees them.
struct Targets {
  Targets(const DeviceBatch& batch, int64_t count)
      : labels(batch.labels.narrow(0, 0, count)), weights(batch.weights.narrow(0, 0, count)) {
    if (!batch.second_labels.defined()) return;
    second_labels = batch.second_labels.narrow(0, 0, count);
    shares = batch.mix_weights.narrow(0, 0, count);
  }

  /// A row each: cross entropy, of a mixed row the mean over its two labels by their shares.
  torch::Tensor losses(const torch::Tensor& logits) const {
    const auto own = torch::cross_entropy_loss(logits, labels, {}, at::Reduction::None);
    if (!second_labels.defined()) return own;
    return own * shares + torch::cross_entropy_loss(logits, second_labels, {}, at::Reduction::None) * (1 - shares);
  }

  /// What a hit is counted against: the label of the greater share, at a half the row's own.
  torch::Tensor main_labels() const {
    return second_labels.defined() ? torch::where(shares.ge(0.5), labels, second_labels) : labels;
  }

  torch::Tensor labels, weights;
  torch::Tensor second_labels, shares;  // undefined where nothing is mixed
};

}  // namespace

Replicated::Replicated(const StrategyContext& context)
    : model_(context.model),
      comm_(context.comm),
      recorder_(context.recorder),
      parameters_(named(model_.named_parameters())),
      buffers_(named(model_.named_buffers())),
      trained_(trained_of(parameters_)),
      sgd_(values(trained_), context.optimizer, factors_of(trained_, context.rate_factors)),
      emulated_step_ns_(context.emulated_step_ns) {
  broadcast(comm_, parameters_);
  agree_on_buffers();
  // Linux wakes a thread up to 50 us late, to save wake-ups, unless it asks for better: 4 % of a step of 1.2 ms.
  if (emulated_step_ns_ > 0) prctl(PR_SET_TIMERSLACK, 1UL);
}

StepSums Replicated::step(const DeviceBatch& batch) {
  if (emulated_step_ns_ > 0) return emulated(batch);
  begin_gradients();
  const auto sums = forward_backward(batch);
  finish_gradients();
  recorder_.mark(Phase::kCommunication);
  sgd_.step();
  are_buffers_agreed_ = false;
  recorder_.mark(Phase::kOptimizer);
  return sums;
}

StepSums Replicated::forward_backward(const DeviceBatch& batch) {
  const auto options = torch::dtype(torch::kFloat32).device(batch.images.device());
  if (batch.count == 0) return {torch::zeros({}, options), torch::zeros({}, options.dtype(torch::kInt64))};
  const bool is_training = batch.count > 1;
  if (model_.is_training() != is_training) model_.train(is_training);

  const Targets targets(batch, batch.count);
  const auto logits = model_.forward(batch.images.narrow(0, 0, batch.count));
  const auto loss = (targets.losses(logits) * targets.weights).sum();
  recorder_.mark(Phase::kForward);

  loss.backward(torch::full_like(loss, 1.0 / static_cast<double>(batch.global_count)));
  const auto correct = logits.detach().argmax(1).eq(targets.main_labels()).logical_and_(targets.weights.gt(0)).sum();
  recorder_.mark(Phase::kBackward);
  return {loss.detach(), correct};
}

/// Sleeps, and sends what gradients there are (zeros) where there is somebody to send them to.
StepSums Replicated::emulated(const DeviceBatch& batch) {
  const bool is_alone = comm_.world_size() == 1;
  if (!is_alone) begin_gradients();
  std::this_thread::sleep_for(std::chrono::nanoseconds(emulated_step_ns_));
  recorder_.mark(Phase::kForward);
  if (!is_alone) finish_gradients();
  recorder_.mark(Phase::kCommunication);
  const auto options = torch::dtype(torch::kFloat32).device(batch.images.device());
  return {torch::zeros({}, options), torch::zeros({}, options.dtype(torch::kInt64))};
}

torch::Tensor Replicated::evaluate(const DeviceBatch& batch) {
  agree_on_buffers();
  at::NoGradGuard no_grad;
  if (model_.is_training()) model_.eval();
  return model_.forward(batch.images);
}

void Replicated::agree_on_buffers() {
  if (are_buffers_agreed_) return;
  broadcast(comm_, buffers_);
  are_buffers_agreed_ = true;
}

NamedTensors Replicated::tensors() {
  NamedTensors all;
  for (const auto& [name, tensor] : parameters_) all.emplace_back("model." + name, tensor.detach());
  for (const auto& [name, tensor] : buffers_) all.emplace_back("model." + name, tensor);
  size_t trained = 0;
  for (const auto& [name, tensor] : parameters_)
    all.emplace_back("optimizer.momentum." + name,
                     tensor.requires_grad() ? sgd_.momentum()[trained++] : torch::zeros_like(tensor));
  return all;
}

StateDict Replicated::state() {
  agree_on_buffers();
  StateDict state;
  for (const auto& [name, tensor] : tensors())
    state[name] = tensor.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  return state;
}

void Replicated::load_state(const StateDict& state) {
  auto mine = tensors();
  for (const auto& [name, tensor] : mine) {
    const auto found = state.find(name);
    if (found == state.end())
      throw corrupt_error(concat("tensor ", name, " is missing; expected it, as the model has it"));
    if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type())
      throw corrupt_error(concat("tensor ", name, " is ", found->second.scalar_type(), " ", found->second.sizes(),
                                 "; expected the model's, ", tensor.scalar_type(), " ", tensor.sizes()));
  }
  for (const auto& [name, tensor] : state)
    if (std::none_of(mine.begin(), mine.end(), [&](const auto& item) { return item.first == name; }))
      throw corrupt_error(concat("tensor ", name, " is one too many; expected the model's tensors alone"));
  at::NoGradGuard no_grad;
  for (auto& [name, tensor] : mine) tensor.copy_(state.at(name));
}

}  // namespace penstock::detail
