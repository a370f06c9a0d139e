// Training: steps, averages and an evaluation of one rank.
#include "train/verify/training.h"

#include <limits>
#include <optional>
#include <vector>

#include "core/mutex.h"
#include "core/text.h"
#include "train/comm/sum_over_copies.h"
#include "train/options/average.h"
#include "train/tensor/tensor_file.h"
#include "train/verify/strategy_harness.h"

namespace penstock {
namespace {

constexpr const char *kSteps = "said.steps", *kEvaluation = "said.evaluation", *kOfWeights = "said.of_weights";

void nudge(const Model& model) {
  at::NoGradGuard no_grad;
  for (auto& parameter : model.parameters())
    parameter.copy_(at::nextafter(parameter, at::full_like(parameter, std::numeric_limits<double>::infinity())));
}

/// Collective: the logits of all samples. Each row is of one rank, and x + 0 is x.
torch::Tensor evaluated(StrategyHarness& one, const Samples& samples, int64_t batch_size, Comm& comm) {
  const int64_t count = samples.labels.size(0);
  torch::Tensor all;
  for (int64_t first = 0; first < count; first += batch_size) {
    auto batch = one.part(samples, batch_size, first / batch_size);
    const auto logits = one.strategy->evaluate(batch);
    if (!all.defined()) all = torch::zeros({count, ModelShape{}.classes}, samples.images.options());
    if (logits.defined() && batch.count > 0)
      all.narrow(0, static_cast<int64_t>(batch.first_position), batch.count).copy_(logits.narrow(0, 0, batch.count));
  }
  comm.all_reduce_sum(all)->wait();
  return all.cpu();
}

}  // namespace

torch::Device device_of(const Launch& launch) {
  return launch.is_on_gpu ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU);
}

std::unique_ptr<Model> model_of(const Launch& launch) {
  static Mutex mutex;
  const MutexLock lock(mutex);
  at::manual_seed(1);
  auto model = make_model_of(launch.subject.arch, ModelShape{});
  model->to(launch.dtype);
  if (launch.is_nudged) nudge(*model);
  return model;
}

void train(const Launch& launch, const Samples& given, Comm& comm, const std::filesystem::path& to,
           RankProgress& progress) {
  progress.begin("the set-up of the mode");
  const torch::Device device = device_of(launch);
  const Samples samples{given.images.to(device, launch.dtype), given.labels.to(device)};
  auto input_sizes = samples.images.sizes().vec();
  input_sizes[0] = launch.batch_size;
  const auto average = parse_average(launch.subject.average);
  const StepOptions options = step_options_of(launch.subject, *model_of(launch));
  std::optional<Taps> taps;
  if (launch.taps) taps.emplace(comm.rank(), *launch.taps, progress);
  const auto make = [&] {
    auto model = model_of(launch);
    if (taps) taps->attach(*model);
    return model;
  };
  StrategyHarness one(launch.mode, make, comm, launch.optimizer, launch.dtype, device, input_sizes, launch.micro_shards,
                      options, taps ? &*taps : nullptr, rate_factors_of(launch.subject, *model_of(launch)));
  comm.barrier();  // a step may set the random numbers of which others build their models
  std::vector<torch::Tensor> steps;
  if (!launch.from.empty()) {
    progress.begin("the state of a checkpoint");
    StateDict state = read_tensors(launch.from).tensors;
    if (const auto said = state.find(kSteps); said != state.end()) steps.push_back(said->second);
    std::erase_if(state, [](const auto& entry) { return entry.first.starts_with(kSaid); });
    one.strategy->load_state(state);
  }
  const int64_t batch_count = (samples.labels.size(0) + launch.batch_size - 1) / launch.batch_size;
  for (int64_t step = launch.first_step; step < launch.end_step; ++step) {
    progress.step = step;
    progress.begin("forward, backward or update");
    auto batch = one.part(samples, launch.batch_size, step % batch_count);
    batch.epoch = step / batch_count;
    if (taps) taps->begin_step(step, *one.model, *options.loss, batch);
    const auto sums = one.strategy->step(batch);
    steps.push_back(sum_over_copies(comm, one.strategy->data_world_size(),
                                    at::stack({sums.loss.to(torch::kFloat64), sums.correct.to(torch::kFloat64)}))
                        .unsqueeze(0));
    progress.begin("average");
    if (average.is_due(step + 1))
      one.strategy->average_weights(average.decay_after(step + 1, launch.step_count), average.restarts);
  }
  if (taps) taps->write(to);
  StateDict said;
  if (!steps.empty()) said[kSteps] = at::cat(steps);
  if (launch.evaluates) {
    // Before the state, which an evaluation must not change.
    progress.begin("evaluation");
    said[kEvaluation] = evaluated(one, samples, launch.batch_size, comm);
    one.strategy->evaluate_average(false);
    if (average.every > 0) said[kOfWeights] = evaluated(one, samples, launch.batch_size, comm);
  }
  progress.begin("the state for a checkpoint");
  auto state = one.strategy->state();
  state.merge(said);
  if (comm.rank() == 0) write_tensors(to, state);
  progress.begin("the end");
  comm.barrier();  // no rank leaves while another one still needs it
}

}  // namespace penstock
