// optimizer_bench: an update of all parameters of a model, beside the one of torch::optim, in turn. One thread.
//
//   torch_us   an update by torch::optim
//   of_torch   the update / the one of torch::optim
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "core/clock.h"
#include "train/nn/model.h"
#include "train/optimizers/optimizer.h"

namespace penstock {
namespace {

std::vector<torch::Tensor> parameters_of(const Model& model) {
  auto parameters = model.parameters();
  for (auto& parameter : parameters) parameter.mutable_grad() = torch::randn_like(parameter);
  return parameters;
}

template <class Torch, class Options>
void BM_Update(benchmark::State& state, const std::string& arch, const OptimizerOptions& options,
               const Options& torch_options) {
  at::set_num_threads(1);
  at::manual_seed(1);
  const auto own = ModelRegistry::make(parse_spec("arch", arch), ModelShape{});
  const auto other = ModelRegistry::make(parse_spec("arch", arch), ModelShape{});
  const auto optimizer = make_optimizer({parameters_of(*own), options});
  Torch torch_optimizer(parameters_of(*other), torch_options);
  int64_t own_ns = 0, torch_ns = 0;
  for (auto _ : state) {
    const int64_t start_ns = now_ns();
    optimizer->step();
    const int64_t stepped_ns = now_ns();
    torch_optimizer.step();
    own_ns += stepped_ns - start_ns;
    torch_ns += now_ns() - stepped_ns;
    state.SetIterationTime(static_cast<double>(stepped_ns - start_ns) * 1e-9);
  }
  state.counters["torch_us"] = 1e-3 * static_cast<double>(torch_ns) / static_cast<double>(state.iterations());
  state.counters["of_torch"] = static_cast<double>(own_ns) / static_cast<double>(torch_ns);
}

void BM_Sgd(benchmark::State& state, const std::string& arch) {
  BM_Update<torch::optim::SGD>(state, arch, {.learning_rate = 1e-3, .weight_decay = 1e-3},
                               torch::optim::SGDOptions(1e-3).momentum(0.9).weight_decay(1e-3));
}

void BM_Adamw(benchmark::State& state, const std::string& arch) {
  BM_Update<torch::optim::AdamW>(state, arch, {.learning_rate = 1e-3, .weight_decay = 1e-3, .spec = "adamw"},
                                 torch::optim::AdamWOptions(1e-3).weight_decay(1e-3));
}

/// Beside AdamW, because torch::optim has no LAMB.
void BM_Lamb(benchmark::State& state, const std::string& arch) {
  BM_Update<torch::optim::AdamW>(state, arch, {.learning_rate = 1e-3, .weight_decay = 1e-3, .spec = "lamb"},
                                 torch::optim::AdamWOptions(1e-3).weight_decay(1e-3));
}

BENCHMARK_CAPTURE(BM_Sgd, lenet, "lenet")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Sgd, resnet18, "resnet18")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Adamw, lenet, "lenet")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Adamw, resnet18, "resnet18")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Lamb, lenet, "lenet")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Lamb, resnet18, "resnet18")->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace penstock
