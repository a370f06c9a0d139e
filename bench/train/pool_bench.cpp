// pool_bench: relu and pooling in one pass, beside LibTorch's two operators and memcpy.
//
// The forward and backward passes of LeNet's first and second stages after their convolutions, batch 64, one thread.
// The contestants take turns; times are processor times of the thread.
//
//   of_libtorch  this / LibTorch's max_pool2d(relu(x), 2), the same bits
//   of_memcpy    this / (memcpy of what must be read and written: x, y, and their gradients): the memory's limit
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/types.h>

#include <cstring>

#include "core/clock.h"
#include "train/nn/relu_max_pool.h"

namespace penstock {
namespace {

int64_t thread_ns() { return cpu_ns(CLOCK_THREAD_CPUTIME_ID); }

/// Processor time of the thread for both passes, in nanoseconds.
template <class Operator>
int64_t time_of(const torch::Tensor& x, const torch::Tensor& gradient, const Operator& operate) {
  const int64_t start_ns = thread_ns();
  const auto input = x.detach().requires_grad_();
  operate(input).backward(gradient);
  return thread_ns() - start_ns;
}

int64_t time_of_copy(const torch::Tensor& from, torch::Tensor& to) {
  const int64_t start_ns = thread_ns();
  std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
  benchmark::ClobberMemory();
  return thread_ns() - start_ns;
}

void BM_ReluMaxPool(benchmark::State& state) {
  at::set_num_threads(1);
  at::manual_seed(1);
  const auto x = torch::randn({64, state.range(0), state.range(1), state.range(1)});
  const auto gradient = torch::randn({64, state.range(0), state.range(1) / 2, state.range(1) / 2});
  auto x_target = torch::empty_like(x), y_target = torch::empty_like(gradient);
  const auto theirs = [](const torch::Tensor& input) { return torch::max_pool2d(torch::relu(input), 2); };
  int64_t mine_ns = 0, theirs_ns = 0, copy_ns = 0;
  for (auto _ : state) {
    const int64_t iteration_ns = time_of(x, gradient, detail::relu_max_pool);
    mine_ns += iteration_ns;
    theirs_ns += time_of(x, gradient, theirs);
    // A copy reads one buffer and writes another. For x this stands for reading x and writing its gradient, for y for
    // writing y and reading its gradient.
    copy_ns += time_of_copy(x, x_target) + time_of_copy(gradient, y_target);
    state.SetIterationTime(static_cast<double>(iteration_ns) * 1e-9);
  }
  state.counters["of_libtorch"] = static_cast<double>(theirs_ns) / static_cast<double>(mine_ns);
  state.counters["of_memcpy"] = static_cast<double>(copy_ns) / static_cast<double>(mine_ns);
}
BENCHMARK(BM_ReluMaxPool)
    ->ArgNames({"channels", "side"})
    ->Args({6, 28})
    ->Args({16, 10})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace penstock
