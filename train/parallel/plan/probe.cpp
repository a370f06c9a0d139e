// Probe: passes through the model, updates, sums and messages, one after the other.
#include "train/parallel/plan/probe.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/machine.h"
#include "train/nn/model.h"
#include "train/nn/row_draws.h"
#include "train/parallel/pipeline/block_costs.h"
#include "train/parallel/plan/comm_probe.h"
#include "train/parallel/plan/exchange.h"
#include "train/parallel/plan/pass_probe.h"
#include "train/parallel/plan/trials.h"
#include "train/parallel/strategy/buckets.h"
#include "train/parallel/sync/power_sgd.h"

namespace penstock::detail {
namespace {

constexpr double kShort = 0.1;  // seconds for measuring what takes milliseconds

/// What each of some parts takes that run one after the other.
std::vector<Work> measured_parts(Comm& comm, const std::vector<std::function<void()>>& parts) {
  const auto timed = [&](Company = Company::kAlone, Turns* turns = nullptr) {
    std::vector<double> seconds;
    if (turns) turns->take();
    for (const auto& run : parts) {
      const int64_t start_ns = now_ns();
      run();
      seconds.push_back(seconds_since(start_ns));
    }
    if (turns) turns->pass_on();
    return seconds;
  };
  timed();
  const auto first = timed();
  const double one = std::max(agreed(comm, std::accumulate(first.begin(), first.end(), 0.0)), 1e-6);
  Trials<std::vector<double>> trials;
  trials.add(comm, std::clamp(static_cast<int>(kShort / one), 1, 40), /*in_turn=*/true, timed);
  std::vector<Work> works;
  for (size_t part = 0; part < parts.size(); ++part)
    works.push_back(trials.typical([part](const auto& seconds) { return seconds[part]; }));
  return works;
}

Work measured_work(Comm& comm, const std::function<void()>& run) { return measured_parts(comm, {run}).front(); }

double trained_bytes(const Model& model) {
  double bytes = 0;
  for (const auto& parameter : model.parameters())
    if (parameter.requires_grad()) bytes += static_cast<double>(parameter.nbytes());
  return bytes;
}

/// Per byte of the trained parameters.
void measure_update(Comm& comm, Model& model, const ProbeOptions& options, MachineCosts& costs) {
  at::NoGradGuard no_grad;
  OptimizerContext context{.parameters = {}, .options = options.optimizer};
  context.options.learning_rate = 0;
  for (auto& parameter : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    parameter.mutable_grad() = torch::zeros_like(parameter);
    context.parameters.push_back(parameter);
  }
  const double bytes = trained_bytes(model);
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

std::vector<PassCosts> measure_passes(Comm& comm, Model& model, const Loss& loss, const ProbeOptions& options,
                                      double sum_seconds, double gather_seconds) {
  Exchange exchange(comm, trained_bytes(model));
  std::vector<std::unique_ptr<PassProbe>> passes;
  for (const auto& request : options.passes) {
    passes.push_back(std::make_unique<PassProbe>(comm, model, loss, options, request));
    if (passes.back()->is_very_long()) passes.back()->measure(exchange, 0);
  }
  // In rounds, so that a minute in which the machine is slow is in all passes.
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round)
    for (const auto& pass : passes)
      if (!pass->is_very_long()) pass->measure(exchange, options.pass_seconds / kRounds);
  std::vector<PassCosts> costs;
  for (const auto& pass : passes) costs.push_back(pass->costs(sum_seconds, gather_seconds));
  return costs;
}

/// The codecs of all buckets, in a communicator of this rank alone: its sums take no time.
CompressionCosts measure_compression(Comm& comm, const Model& model, const Compression& compression) {
  NamedTensors trained;
  for (const auto& item : model.named_parameters())
    if (item.value().requires_grad()) trained.emplace_back(item.key(), item.value());
  const double bytes = trained_bytes(model);
  if (bytes == 0) return {.compression = compression};
  const auto self = make_self_comm();
  const auto buckets = bucket_gradients(values(trained), assign_buckets(bytes_of(values(trained))), *self);
  const MakeCodec make_codec = compression.rank > 0 ? MakeCodec(PowerSgd(compression.rank)) : make_half_codec;
  std::vector<std::unique_ptr<BucketCodec>> codecs;
  for (const auto& bucket : buckets) {
    codecs.push_back(make_codec(trained, bucket, *self));
    bucket.flat.fill_(1);
  }
  const at::NoGradGuard no_grad;
  const auto works = measured_parts(comm, {[&] {
                                             for (const auto& codec : codecs) codec->start()->wait();
                                           },
                                           [&] {
                                             for (const auto& codec : codecs)
                                               if (const auto work = codec->turn()) work->wait();
                                           },
                                           [&] {
                                             for (const auto& codec : codecs) codec->finish();
                                           }});
  for (const auto& [name, parameter] : trained) parameter.mutable_grad().reset();
  return {compression, works[0] * (1 / bytes), works[1] * (1 / bytes), works[2] * (1 / bytes)};
}

/// By ranks that have a core each, or two that share one.
void measure_computing(Comm& comm, Model& model, const Loss& loss, const ProbeOptions& options, MachineCosts& costs) {
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
  costs.base_bytes = static_cast<double>(resident_bytes()) - parameter_bytes;
  costs.collectives.push_back(measure_collectives(comm));
  costs.message = measure_messages(comm);
  measure_update(comm, model, options, costs);
  for (const auto& compression : options.compressions)
    costs.compressions.push_back(measure_compression(comm, model, compression));
  const double activations = std::accumulate(costs.activation_bytes.begin(), costs.activation_bytes.end(), 0.0);
  const double trained = trained_bytes(model);
  const auto& measured = costs.collectives.front();
  for (auto of_pass :
       measure_passes(comm, model, loss, options, measured.sum.at(trained), measured.ring_gather.seconds)) {
    of_pass.extra_bytes = std::max(0.0, of_pass.extra_bytes - activations * static_cast<double>(of_pass.rows));
    costs.passes.push_back(std::move(of_pass));
  }
  costs.evaluation_bytes = measure_evaluation(model, loss, options, costs.picture_bytes);
}

}  // namespace

MachineCosts probe(Comm& all, Model& model, const Loss& loss, const ProbeOptions& options) {
  MachineCosts costs;
  costs.collectives.clear();
  costs.shares_memory = all.backend().find("shared memory") != std::string::npos;
  const int ranks = all.world_size(), computing = std::max(2, std::min(usable_cores(), ranks));
  if (ranks <= computing) {
    measure_computing(all, model, loss, options, costs);
    return costs;
  }
  const auto group = all.split(all.rank() < computing ? 0 : 1);
  if (all.rank() < computing) measure_computing(*group, model, loss, options, costs);
  all.barrier();
  costs.collectives.push_back(measure_collectives(all));
  return costs;
}

}  // namespace penstock::detail
