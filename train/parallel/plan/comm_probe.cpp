// Comm probe: each operation many times, small and large.
#include "train/parallel/plan/comm_probe.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "train/parallel/plan/probe_times.h"

namespace penstock::detail {
namespace {

/// A line through two sizes. `run` does it once for a tensor of so many bytes, and all ranks do it together.
LineCost line_of(Comm& comm, const std::function<std::function<void()>(int64_t bytes)>& make) {
  constexpr int64_t kSmall = 1 << 16, kLarge = 1 << 23;
  std::vector<double> seconds, cores;
  for (const int64_t bytes : {kSmall, kLarge}) {
    const auto run = make(bytes);
    const int count = bytes == kSmall ? 60 : 12;
    for (int i = 0; i < 3; ++i) run();
    comm.barrier();
    const int64_t start_ns = now_ns(), start_cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const int64_t one_ns = now_ns();
      run();
      times.push_back(seconds_since(one_ns));
    }
    const double all = seconds_since(start_ns);
    auto used = torch::tensor({static_cast<double>(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) * 1e-9 / all},
                              torch::kFloat64);
    used = comm.all_gather(used).sum();
    seconds.push_back(median(times));
    cores.push_back(used.item<double>());
  }
  const double slope = std::max(0.0, seconds[1] - seconds[0]) / static_cast<double>(kLarge - kSmall);
  return {std::max(0.0, seconds[0] - slope * static_cast<double>(kSmall)), slope, cores[1]};
}

/// Tags below kTagLimit; messages of a probe are the only ones.
LineCost measure_messages(Comm& comm) {
  auto line = line_of(comm, [&](int64_t bytes) -> std::function<void()> {
    auto tensor = torch::zeros({bytes / 4});
    return [&comm, tensor]() mutable {  // there and back
      if (comm.rank() > 1) return;
      const int peer = 1 - comm.rank();
      if (comm.rank() == 0) comm.send(tensor, peer, 1, "a probe")->wait();
      comm.receive(tensor, peer, 1, "a probe")->wait();
      if (comm.rank() == 1) comm.send(tensor, peer, 1, "a probe")->wait();
    };
  });
  return {line.seconds / 2, line.seconds_per_byte / 2, line.cores};
}

}  // namespace

void measure_collectives(Comm& comm, MachineCosts& costs) {
  const auto options = torch::dtype(torch::kFloat32);
  const int ranks = comm.world_size();
  costs.ranks = ranks;
  costs.shares_memory = comm.backend().find("shared memory") != std::string::npos;
  costs.sum = line_of(comm, [&](int64_t bytes) -> std::function<void()> {
    return [&comm, tensor = comm.allocate(bytes / 4, options)]() mutable { comm.all_reduce_sum(tensor)->wait(); };
  });
  costs.half_sum = line_of(comm, [&](int64_t bytes) -> std::function<void()> {
    return [&comm, tensor = comm.allocate(bytes / 2, torch::dtype(torch::kHalf))]() mutable {
      comm.all_reduce_sum(tensor)->wait();
    };
  });
  const auto gather_of = [&](const std::function<torch::Tensor(int64_t count)>& allocate) {
    return line_of(comm, [&comm, &allocate, ranks](int64_t bytes) -> std::function<void()> {
      const int64_t count = bytes / 4 / ranks;
      auto all = allocate(count * ranks);
      const auto mine = all.narrow(0, count * comm.rank(), count);
      return [&comm, all, mine]() mutable { comm.all_gather_into(all, mine)->wait(); };
    });
  };
  costs.gather = gather_of([&](int64_t count) { return comm.allocate(count, options); });
  costs.ring_gather = gather_of([&](int64_t count) { return torch::zeros({count}, options); });
  costs.scatter = line_of(comm, [&](int64_t bytes) -> std::function<void()> {
    const int64_t count = bytes / 4 / ranks;
    return [&comm, all = torch::zeros({count * ranks}), mine = torch::zeros({count})]() mutable {
      comm.reduce_scatter_sum(mine, all)->wait();
    };
  });
  costs.message = measure_messages(comm);
  auto votes = torch::zeros({3}, torch::kInt32);
  std::vector<double> times;
  for (int i = 0; i < 50; ++i) {
    const int64_t start_ns = now_ns();
    comm.all_reduce_sum(votes)->wait();
    times.push_back(seconds_since(start_ns));
  }
  costs.vote_seconds = median(times);
}

}  // namespace penstock::detail
