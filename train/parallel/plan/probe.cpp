// Probe: passes through the model block by block, updates, sums and messages.
#include "train/parallel/plan/probe.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <string>

#include "core/clock.h"
#include "train/nn/model.h"
#include "train/nn/row_draws.h"
#include "train/nn/weight_gradients.h"
#include "train/parallel/pipeline/block_costs.h"
#include "train/parallel/pipeline/split_backward.h"
#include "train/parallel/plan/comm_probe.h"
#include "train/parallel/plan/probe_times.h"
#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {
namespace {

/// A number of bytes in /proc/self/status: VmRSS, what of this process is in memory, or VmHWM, the most so far.
double status_bytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return 1024 * std::stod(line.substr(name.size() + 1));
  return 0;
}

/// From now on VmHWM counts from what is in memory now, without what was freed before. Where the kernel does not let a
/// process do so, later peaks are too high.
double restart_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
  return status_bytes("VmRSS");
}

/// What one trial of a pass took, per micro-batch.
struct Trial {
  struct Block {
    double forward = 0, backward = 0, input_gradient = 0, weight_gradient = 0;
  };
  std::vector<Block> blocks;
  double loss = 0;
};

/// Micro-batches through the whole model, cut at each block as between two stages.
class Pass {
 public:
  Pass(Model& model, const Loss& loss, const ProbeOptions& options, const PassRequest& request)
      : model_(model), loss_(loss), request_(request), outputs_(options.outputs), parameters_(model.parameters()) {
    std::erase_if(parameters_, [](const auto& parameter) { return !parameter.requires_grad(); });
    auto sizes = options.picture;
    sizes.insert(sizes.begin(), request.rows);
    batch_.rows = batch_.count = batch_.global_count = request.rows;
    batch_.images = torch::randn(sizes, at::detail::createCPUGenerator(/*seed_val=*/0));
    batch_.labels = torch::arange(request.rows, torch::kInt64).remainder_(std::max<int64_t>(outputs_, 1));
    batch_.weights = torch::ones({request.rows});
  }

  /// The bytes of all gradients, which then have no memory.
  double drop_gradients() {
    double bytes = 0;
    for (auto& parameter : parameters_) {
      parameter.mutable_grad().reset();
      bytes += static_cast<double>(parameter.nbytes());
    }
    return bytes;
  }

  Trial run(bool splits) {
    Trial trial{.blocks = std::vector<Trial::Block>(model_.blocks().size())};
    for (auto& parameter : parameters_) parameter.mutable_grad().reset();
    WeightGradients joined;
    const int count = request_.micro_batches;
    const WeightGradients::Scope scope(count > 1 ? &joined : nullptr);
    for (int m = 0; m < count; ++m) {
      const RowScope rows(BatchRows{});
      joined.begin_backward(/*is_last=*/m + 1 == count);
      splits ? split(forward(trial), trial) : backward(forward(trial), trial);
      places_.clear();
    }
    for (auto& block : trial.blocks)
      for (double* part : {&block.forward, &block.backward, &block.input_gradient, &block.weight_gradient})
        *part /= count;
    trial.loss /= count;
    return trial;
  }

 private:
  struct Place {
    torch::Tensor input, output;
  };

  /// Returns the gradient of the logits.
  torch::Tensor forward(Trial& trial) {
    torch::Tensor x = batch_.images;
    for (size_t block = 0; block < model_.blocks().size(); ++block) {
      const auto input = x.detach().requires_grad_(block > 0);
      const auto taken = block > 0 ? input.clone() : input;  // a block may write to its input
      const int64_t start_ns = now_ns();
      x = model_.blocks()[block].forward(taken);
      trial.blocks[block].forward += seconds_since(start_ns);
      places_.push_back({input, x});
    }
    const int64_t start_ns = now_ns();
    const auto logits = x.detach().requires_grad_();
    const bool is_class = loss_.target().is_class();
    const auto value = is_class ? (loss_.of_rows(logits, batch_) * batch_.weights).sum() : logits.square().sum();
    value.backward(torch::full_like(value, 1.0 / static_cast<double>(request_.rows)));
    if (is_class) hits(logits.detach(), batch_);
    trial.loss += seconds_since(start_ns);
    return logits.grad();
  }

  void backward(torch::Tensor gradient, Trial& trial) {
    for (size_t block = places_.size(); block-- > 0;) {
      auto& [input, output] = places_[block];
      if (!output.requires_grad()) return;
      const int64_t start_ns = now_ns();
      output.backward(gradient);
      output.reset();
      trial.blocks[block].backward += seconds_since(start_ns);
      gradient = input.grad();
    }
  }

  void split(torch::Tensor gradient, Trial& trial) {
    std::vector<std::optional<SplitBackward>> rest(places_.size());
    for (size_t block = places_.size(); block-- > 1;) {
      auto& [input, output] = places_[block];
      if (!output.requires_grad()) break;
      const int64_t start_ns = now_ns();
      rest[block].emplace(output, gradient, input);
      trial.blocks[block].input_gradient += seconds_since(start_ns);
      gradient = input.grad();
    }
    for (size_t block = 1; block < places_.size(); ++block) {
      if (!rest[block]) continue;
      const int64_t start_ns = now_ns();
      rest[block]->finish(parameters_);
      rest[block].reset();
      places_[block].output.reset();
      trial.blocks[block].weight_gradient += seconds_since(start_ns);
    }
    if (places_.front().output.requires_grad()) places_.front().output.backward(gradient);
  }

  Model& model_;
  const Loss& loss_;
  PassRequest request_;
  int64_t outputs_;
  std::vector<torch::Tensor> parameters_;
  DeviceBatch batch_;
  std::vector<Place> places_;
};

/// The number of rank 0, at all ranks.
double agreed(Comm& comm, double own) {
  auto number = torch::tensor({own}, torch::kFloat64);
  comm.broadcast(number, 0);
  return number.item<double>();
}

/// The trials of rank 0: alone, and while all ranks do the same. Two runs come before, of which the second one counts
/// as beside the others; `on_warm` is called after them.
template <class Run>
auto measured(
    Comm& comm, double seconds, const Run& run, const std::function<void()>& on_warm = [] {}) {
  using Result = decltype(run());
  constexpr int kMost = 40;
  std::pair<std::vector<Result>, std::vector<Result>> results;  // alone, beside
  run();
  comm.barrier();
  const int64_t start_ns = now_ns();
  results.second.push_back(run());
  const double one = std::max(agreed(comm, seconds_since(start_ns)), 1e-6);
  on_warm();
  const int count = std::clamp(static_cast<int>(seconds / (2 * one)), 1, kMost);
  comm.barrier();
  if (comm.rank() == 0)
    for (int i = 0; i < count; ++i) results.first.push_back(run());
  comm.barrier();
  for (int i = 1; i < count; ++i) results.second.push_back(run());
  if (comm.rank() != 0 && count > 1) run();  // rank 0 is never the last
  comm.barrier();
  if (comm.rank() != 0) results.first = results.second;
  return results;
}

template <class Of>
Work work_of(const std::pair<std::vector<Trial>, std::vector<Trial>>& trials, const Of& of) {
  std::vector<double> alone, beside;
  for (const auto& trial : trials.first) alone.push_back(of(trial));
  for (const auto& trial : trials.second) beside.push_back(of(trial));
  return {median(alone), median(beside)};
}

PassCosts measure_pass(Comm& comm, Model& model, const Loss& loss, const ProbeOptions& options,
                       const PassRequest& request) {
  at::set_num_threads(request.threads);
  PassCosts costs{.rows = request.rows,
                  .threads = request.threads,
                  .joins = request.micro_batches > 1,
                  .splits = request.splits,
                  .blocks = std::vector<BlockWork>(model.blocks().size()),
                  .loss = {}};
  Pass pass(model, loss, options, request);
  const double gradients = pass.drop_gradients(), before = gradients + restart_peak();
  const auto whole = measured(
      comm, options.pass_seconds, [&] { return pass.run(/*splits=*/false); },
      [&] { costs.extra_bytes = std::max(0.0, status_bytes("VmHWM") - before); });
  for (size_t block = 0; block < costs.blocks.size(); ++block) {
    auto& one = costs.blocks[block];
    one.forward = work_of(whole, [&](const Trial& trial) { return trial.blocks[block].forward; });
    one.backward = work_of(whole, [&](const Trial& trial) { return trial.blocks[block].backward; });
  }
  costs.loss = work_of(whole, [](const Trial& trial) { return trial.loss; });
  if (!request.splits) return costs;
  const auto halves = measured(comm, options.pass_seconds, [&] { return pass.run(/*splits=*/true); });
  for (size_t block = 0; block < costs.blocks.size(); ++block) {
    auto& one = costs.blocks[block];
    one.input_gradient = work_of(halves, [&](const Trial& trial) { return trial.blocks[block].input_gradient; });
    one.weight_gradient = work_of(halves, [&](const Trial& trial) { return trial.blocks[block].weight_gradient; });
  }
  return costs;
}

/// As in a run, evaluations come after steps and find the memory that these have freed.
void measure_evaluation(Model& model, const Loss& loss, const ProbeOptions& options, MachineCosts& costs) {
  if (options.evaluated_rows == 0 || options.passes.empty()) return;
  Pass pass(model, loss, options, options.passes.front());
  restart_peak();
  for (int i = 0; i < 2; ++i) pass.run(/*splits=*/false);
  const double before = status_bytes("VmHWM");
  at::NoGradGuard no_grad;
  const RowScope rows(std::nullopt);
  model.train(false);
  auto sizes = options.picture;
  sizes.insert(sizes.begin(), options.evaluated_rows);
  model.forward(torch::zeros(sizes));
  const double pictures = costs.picture_bytes * static_cast<double>(options.evaluated_rows);
  costs.evaluation_bytes =
      std::max(0.0, status_bytes("VmHWM") - before - pictures) / static_cast<double>(options.evaluated_rows);
  model.train(true);
}

constexpr double kShort = 0.1;  // seconds for measuring what takes milliseconds

Work measured_work(Comm& comm, const std::function<void()>& run) {
  const auto times = measured(comm, kShort, [&] {
    const int64_t start_ns = now_ns();
    run();
    return seconds_since(start_ns);
  });
  return {median(times.first), median(times.second)};
}

/// Per byte of the trained parameters.
void measure_update(Comm& comm, Model& model, const ProbeOptions& options, MachineCosts& costs) {
  at::NoGradGuard no_grad;
  OptimizerContext context{.parameters = {}, .options = options.optimizer};
  context.options.learning_rate = 0;
  double bytes = 0;
  for (auto& parameter : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    parameter.mutable_grad() = torch::zeros_like(parameter);
    context.parameters.push_back(parameter);
    bytes += static_cast<double>(parameter.nbytes());
  }
  if (bytes == 0) return;
  const auto optimizer = make_optimizer(context);
  costs.update = measured_work(comm, [&] { optimizer->step(); }) * (1 / bytes);
  costs.touch = measured_work(comm,
                              [&] {
                                for (auto& parameter : context.parameters)
                                  parameter.mutable_grad().zero_().add_(parameter);
                              }) *
                (1 / bytes);
}

}  // namespace

MachineCosts probe(Comm& comm, Model& model, const Loss& loss, const ProbeOptions& options) {
  MachineCosts costs;
  costs.picture_bytes = sizeof(float);
  for (const int64_t size : options.picture) costs.picture_bytes *= static_cast<double>(size);
  double parameter_bytes = 0;
  for (const auto& parameter : model.parameters()) parameter_bytes += static_cast<double>(parameter.nbytes());
  model.train(true);
  constexpr int64_t kRows = 2;  // BatchNorm has no variance of a single row
  auto sizes = options.picture;
  sizes.insert(sizes.begin(), kRows);
  for (const auto& block : measure_blocks(model, sizes, 1, torch::kCPU))
    costs.activation_bytes.push_back(block.activation_bytes / kRows);
  {
    at::NoGradGuard no_grad;
    const RowScope rows(BatchRows{});
    torch::Tensor x = torch::zeros(sizes);
    for (const auto& block : model.blocks()) {
      x = block.forward(x.clone());
      costs.output_bytes.push_back(static_cast<double>(x.nbytes()) / kRows);
    }
  }
  costs.base_bytes = status_bytes("VmRSS") - parameter_bytes;
  measure_collectives(comm, costs);
  measure_update(comm, model, options, costs);
  const double activations = std::accumulate(costs.activation_bytes.begin(), costs.activation_bytes.end(), 0.0);
  for (const auto& request : options.passes) {
    auto pass = measure_pass(comm, model, loss, options, request);
    pass.extra_bytes = std::max(0.0, pass.extra_bytes - activations * static_cast<double>(request.rows));
    costs.passes.push_back(std::move(pass));
  }
  measure_evaluation(model, loss, options, costs);
  return costs;
}

}  // namespace penstock::detail
