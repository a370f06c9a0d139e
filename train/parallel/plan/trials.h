// Trials: the same work alone, in turn with the other ranks, and beside them.
#pragma once

#include <torch/types.h>

#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/plan/probe_times.h"
#include "train/parallel/plan/task_times.h"

namespace penstock::detail {

/// What the other ranks do during a trial.
enum class Company { kAlone, kInTurn, kBeside };

/// The number of rank 0, at all ranks.
inline double agreed(Comm& comm, double own) {
  auto number = torch::tensor({own}, torch::kFloat64);
  comm.broadcast(number, 0);
  return number.item<double>();
}

/// Each rank runs when the one before it has done so; rank 0 begins.
template <class Run>
void run_in_turn(Comm& comm, int count, const Run& run) {
  constexpr int kTag = 2;
  const int ranks = comm.world_size();
  auto turn = torch::zeros({1});
  const auto wait = [&] { comm.receive(turn, (comm.rank() + ranks - 1) % ranks, kTag, "a turn")->wait(); };
  for (int i = 0; i < count; ++i) {
    if (comm.rank() > 0 || i > 0) wait();
    run();
    comm.send(turn, (comm.rank() + 1) % ranks, kTag, "a turn")->wait();
  }
  if (comm.rank() == 0) wait();
}

/// Results of rank 0; elsewhere nothing of use.
template <class Result>
class Trials {
 public:
  /// Collective over two ranks or more: `run(company)` so often each. Takes as long as 2 * `count` runs, and with
  /// `in_turn` as long as (2 + ranks) * `count`.
  template <class Run>
  void add(Comm& comm, int count, bool in_turn, const Run& run) {
    comm.barrier();
    for (int i = 0; comm.rank() == 0 && i < count; ++i) alone_.push_back(run(Company::kAlone));
    comm.barrier();
    if (in_turn) run_in_turn(comm, count, [&] { in_turn_.push_back(run(Company::kInTurn)); });
    comm.barrier();
    for (int i = 0; i < count; ++i) beside_.push_back(run(Company::kBeside));
  }

  /// The middle_mean() of the number that `of` takes from each result. Requires a trial or more.
  template <class Of>
  Work typical(const Of& of) const {
    const auto of_all = [&of](const std::vector<Result>& results) {
      std::vector<double> values;
      for (const auto& result : results) values.push_back(of(result));
      return middle_mean(std::move(values));
    };
    const double alone = alone_.empty() ? 0 : of_all(alone_);
    return {alone, of_all(beside_), in_turn_.empty() ? alone : of_all(in_turn_)};
  }

 private:
  std::vector<Result> alone_, in_turn_, beside_;
};

}  // namespace penstock::detail
