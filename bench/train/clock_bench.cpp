// clock_bench: what the recorder's clock costs, compared with the step that it measures.
//
// The step is that of LeNet on 28 x 28, batch 64, one thread. The difference between a step with marks and one without
// is smaller than their noise. The marks of a step are therefore timed on their own, many at once, in turn with steps.
//
//   of_step   the clock's time per step / the time of a step; the recorder promises less than 0.01
//   clock_ns  the clock's time per step: the marks of feeder, strategy and trainer, plus a hundredth of what
//           --print-freq 100 adds every 100 steps
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/types.h>

#include "core/clock.h"
#include "train/measure/recorder.h"
#include "train/nn/model.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

constexpr int64_t kRows = 64;
constexpr int kPrintFreq = 100;

DeviceBatch batch() {
  DeviceBatch batch;
  batch.rows = batch.count = batch.global_count = kRows;
  batch.images = torch::randn({kRows, 1, 28, 28});
  batch.labels = torch::randint(10, {kRows}, torch::kInt64);
  batch.weights = torch::ones({kRows});
  return batch;
}

/// Makes the marks of kPrintFreq steps without the steps themselves.
void mark_steps(Recorder& recorder) {
  for (int step = 1; step <= kPrintFreq; ++step) {
    for (const auto phase : {Phase::kOther, Phase::kWait, Phase::kForward, Phase::kBackward, Phase::kCommunication,
                             Phase::kOptimizer, Phase::kOther})
      recorder.mark(phase);
    recorder.end_step(step);
  }
  benchmark::DoNotOptimize(recorder.times());
  recorder.restart();
}

void BM_Clock(benchmark::State& state) {
  const bool is_profiled = state.range(0) != 0;
  at::set_num_threads(1);
  at::manual_seed(1);
  const auto comm = make_self_comm();
  const auto model = ModelRegistry::make(parse_spec("arch", "lenet"), ModelShape{});
  Recorder own, measured;
  const auto strategy = StrategyRegistry::make(parse_spec("mode", "single"),
                                               StrategyContext{*model, *comm, torch::kCPU, {0.01, 0.9, 0}, own});
  const DeviceBatch samples = batch();
  for (int i = 0; i < 20; ++i) strategy->step(samples);
  int64_t step_ns = 0, clock_ns = 0;
  for (auto _ : state) {
    const int64_t start_ns = now_ns();
    strategy->step(samples);
    const int64_t stepped_ns = now_ns();
    if (is_profiled) measured.keep_laps();
    const int64_t marking_ns = now_ns();
    mark_steps(measured);
    const int64_t marked_ns = now_ns();
    if (is_profiled) measured.take_laps();
    step_ns += stepped_ns - start_ns;
    clock_ns += marked_ns - marking_ns;
    state.SetIterationTime(static_cast<double>(stepped_ns - start_ns) * 1e-9);
  }
  const double clock_a_step = static_cast<double>(clock_ns) / kPrintFreq;
  state.counters["clock_ns"] = clock_a_step / static_cast<double>(state.iterations());
  state.counters["of_step"] = clock_a_step / static_cast<double>(step_ns);
}
BENCHMARK(BM_Clock)->ArgName("profiled")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
