// Comm probe: each operation many times, small and large.
#include "train/parallel/plan/comm_probe.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/median.h"
#include "train/parallel/plan/trials.h"

namespace penstock::detail {
namespace {

/// Between two collectives, so that threads that wait are asleep as in a step. It takes no core: where two ranks share
/// one, they would keep each other waiting.
void pause() { std::this_thread::sleep_for(std::chrono::microseconds(500)); }

class CommProbe {
 public:
  CommProbe(Comm& comm, bool pauses) : comm_(comm), pauses_(pauses) {}

  using Run = std::function<void()>;  // does it once; all ranks do it together

  /// A line through two sizes, for each of which `make` prepares.
  LineCost line(const std::function<Run(int64_t bytes)>& make) {
    constexpr int64_t kSmall = 1 << 16, kLarge = 1 << 23;
    const double small = typical(make(kSmall), 60), large = typical(make(kLarge), 12);
    const double slope = std::max(0.0, large - small) / static_cast<double>(kLarge - kSmall);
    return {std::max(0.0, small - slope * static_cast<double>(kSmall)), slope, cores_};
  }

  /// Busy in what was measured last, over all ranks.
  double cores() const { return cores_; }
  /// Seconds.
  double typical(const Run& run, int count) {
    for (int i = 0; i < 3; ++i) run();
    comm_.barrier();
    std::vector<double> seconds;
    double all = 0, busy = 0;
    for (int i = 0; i < count; ++i) {
      if (pauses_) pause();
      const int64_t start_ns = now_ns(), start_cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
      run();
      seconds.push_back(seconds_since(start_ns));
      all += seconds.back();
      busy += static_cast<double>(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) * 1e-9;
    }
    cores_ = comm_.all_gather(torch::tensor({busy / all}, torch::kFloat64)).sum().item<double>();
    return median(std::move(seconds));
  }

 private:
  Comm& comm_;
  bool pauses_;
  double cores_ = 0;
};

}  // namespace

CollectiveCosts measure_collectives(Comm& comm) {
  CommProbe probe(comm, /*pauses=*/true);
  const int ranks = comm.world_size();
  const auto options = torch::dtype(torch::kFloat32);
  const auto sum_of = [&](torch::Dtype type) {
    return probe.line([&](int64_t bytes) -> CommProbe::Run {
      const int64_t count = bytes / static_cast<int64_t>(c10::elementSize(type));
      return
          [&comm, tensor = comm.allocate(count, torch::dtype(type))]() mutable { comm.all_reduce_sum(tensor)->wait(); };
    });
  };
  const auto gather_of = [&](const std::function<torch::Tensor(int64_t count)>& allocate) {
    return probe.line([&](int64_t bytes) -> CommProbe::Run {
      const int64_t count = bytes / 4 / ranks;
      auto all = allocate(count * ranks);
      const auto mine = all.narrow(0, count * comm.rank(), count);
      return [&comm, all, mine]() mutable { comm.all_gather_into(all, mine)->wait(); };
    });
  };
  CollectiveCosts costs{.ranks = ranks};
  costs.sum = sum_of(torch::kFloat32);
  costs.half_sum = sum_of(torch::kHalf);
  costs.gather = gather_of([&](int64_t count) { return comm.allocate(count, options); });
  costs.ring_gather = gather_of([&](int64_t count) { return torch::zeros({count}, options); });
  costs.scatter = probe.line([&](int64_t bytes) -> CommProbe::Run {
    const int64_t count = bytes / 4 / ranks;
    return [&comm, all = torch::zeros({count * ranks}), mine = torch::zeros({count})]() mutable {
      comm.reduce_scatter_sum(mine, all)->wait();
    };
  });
  auto votes = torch::zeros({3}, torch::kInt32);
  costs.vote.seconds = probe.typical([&] { comm.all_reduce_sum(votes)->wait(); }, 50);
  costs.vote.cores = probe.cores();
  return costs;
}

LineCost measure_messages(Comm& comm) {
  constexpr int kTag = 1;  // messages of a probe are the only ones
  CommProbe probe(comm, /*pauses=*/false);
  const auto line = probe.line([&](int64_t bytes) -> CommProbe::Run {
    return [&comm, tensor = torch::zeros({bytes / 4})]() mutable {  // there and back
      if (comm.rank() > 1) return;
      const int peer = 1 - comm.rank();
      if (comm.rank() == 0) comm.send(tensor, peer, kTag, "a probe")->wait();
      comm.receive(tensor, peer, kTag, "a probe")->wait();
      if (comm.rank() == 1) comm.send(tensor, peer, kTag, "a probe")->wait();
    };
  });
  return {line.seconds / 2, line.seconds_per_byte / 2, line.cores};
}

}  // namespace penstock::detail
