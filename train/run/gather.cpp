// all_ranks: numbers of one rank, packed into a tensor that all ranks gather.
#include "train/run/gather.h"

#include <cstring>

#include "core/text.h"
#include "loader/bottleneck/observe.h"

namespace penstock {
namespace {

/// A reference to every number of `run` and `step` that the other ranks need.
std::vector<double*> numbers_of(LoopMeasurement& run, StepTimes& step) {
  std::vector<double*> numbers{
      &run.wait_ms,          &run.times.load_ms,         &run.times.load_cpu_ms,  &run.times.update_cpu_ms,
      &run.times.storage_ms, &run.times.spun_ms,         &run.queued_ms,          &step.collectives,
      &run.times.link_ms,    &run.times.link_latency_ms, &run.times.link_busy_ms, &run.times.link_delays_ms,
      &run.link_bytes};
  for (double& phase : step.phase) numbers.push_back(&phase);
  return numbers;
}

/// One entry per rank. Requires as many steps at each.
std::vector<std::vector<StepCollectives>> gathered_from(const std::vector<StepCollectives>& mine, Comm& comm,
                                                        const torch::Device& device) {
  if (mine.empty() || comm.world_size() == 1) return {mine};
  auto packed = torch::empty({static_cast<int64_t>(mine.size()), 3});
  static_assert(sizeof(StepCollectives) == 3 * sizeof(float));
  std::memcpy(packed.mutable_data_ptr(), mine.data(), packed.nbytes());
  const auto gathered = comm.all_gather(packed.to(device)).cpu();
  std::vector all(static_cast<size_t>(comm.world_size()), mine);
  for (size_t rank = 0; rank < all.size(); ++rank)
    std::memcpy(all[rank].data(), gathered[static_cast<int64_t>(rank)].const_data_ptr(), packed.nbytes());
  return all;
}

}  // namespace

RunMeasurement over_all_ranks(const LoopMeasurement& mine, const StepTimes& step,
                              const std::vector<StepCollectives>& collectives, Comm& comm,
                              const torch::Device& device) {
  LoopMeasurement own = mine;
  StepTimes own_step = step;
  std::vector<double> packed;
  for (const double* number : numbers_of(own, own_step)) packed.push_back(*number);
  const auto gathered = comm.all_gather(torch::tensor(packed, torch::kFloat64).to(device)).cpu();
  std::vector<LoopMeasurement> all(static_cast<size_t>(comm.world_size()));
  std::vector<StepTimes> steps(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const double* from = gathered[static_cast<int64_t>(rank)].const_data_ptr<double>();
    for (double* number : numbers_of(all[rank], steps[rank])) *number = *from++;
  }
  RunMeasurement run{over_ranks(mine, all), {}};
  run.parallel.ranks = std::move(steps);
  run.parallel.collectives = gathered_from(collectives, comm, device);
  return run;
}

std::vector<int64_t> of_all_ranks(int64_t mine, Comm& comm, const torch::Device& device) {
  const auto all = comm.all_gather(torch::tensor({mine}).to(device)).flatten().cpu();
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

std::string ranks_text(const Feeder& feeder, Comm& comm, const torch::Device& device) {
  const auto mine =
      torch::tensor({static_cast<int64_t>(feeder.samples_per_epoch()), feeder.batches_per_epoch()}).to(device);
  const auto all = comm.all_gather(mine).cpu();
  std::string text;
  for (int rank = 0; rank < comm.world_size() && comm.world_size() > 1; ++rank)
    text += concat("rank ", rank, ": ", all[rank][0].item<int64_t>(), " samples, ", all[rank][1].item<int64_t>(),
                   " steps per epoch\n");
  return text;
}

}  // namespace penstock
