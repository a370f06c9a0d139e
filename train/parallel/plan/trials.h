// Trials: the same work alone, in turn with the other ranks, and beside them.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/clock.h"
#include "train/comm/comm.h"
#include "train/parallel/pipeline/task_times.h"

namespace penstock::detail {

inline double seconds_since(int64_t start_ns) { return ms_since(start_ns) * 1e-3; }

/// The mean without the tenth of the values that are largest and the tenth that are smallest. A processor that is
/// shared with other machines has two speeds; a median is one of them, and a run has both. Requires one value or more.
inline double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 10);
  const auto count = static_cast<double>(values.size()) - 2 * static_cast<double>(cut);
  return std::accumulate(values.begin() + cut, values.end() - cut, 0.0) / count;
}

/// What the other ranks do during a trial.
enum class Company { kAlone, kInTurn, kBeside };

/// The number of rank 0, at all ranks.
inline double agreed(Comm& comm, double own) {
  auto number = torch::tensor({own}, torch::kFloat64);
  comm.broadcast(number, 0);
  return number.item<double>();
}

/// Ranks work one after the other, around a ring; rank 0 begins. All of them take equally many turns.
class Turns {
 public:
  explicit Turns(Comm& comm) : comm_(comm), is_mine_(comm.rank() == 0) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Waits until the rank before this one has worked.
  void take() {
    const int ranks = comm_.world_size();
    if (!is_mine_) comm_.receive(turn_, (comm_.rank() + ranks - 1) % ranks, kTag, "a turn")->wait();
    is_mine_ = true;
  }
  void pass_on() {
    is_mine_ = false;
    comm_.send(turn_, (comm_.rank() + 1) % comm_.world_size(), kTag, "a turn")->wait();
  }
  /// After the last turn of all ranks.
  void end() {
    if (comm_.rank() == 0) take();
  }

 private:
  static constexpr int kTag = 2;
  Comm& comm_;
  torch::Tensor turn_ = torch::zeros({1});
  bool is_mine_;
};

/// Results of rank 0; elsewhere nothing of use.
template <class Result>
class Trials {
 public:
  /// Collective over two ranks or more: `run(company, turns)` so often each; turns are null where nobody waits for
  /// them. Takes as long as 2 * `count` runs, and with `in_turn` as long as (2 + ranks) * `count`.
  template <class Run>
  void add(Comm& comm, int count, bool in_turn, const Run& run) {
    comm.barrier();
    for (int i = 0; comm.rank() == 0 && i < count; ++i) alone_.push_back(run(Company::kAlone, nullptr));
    comm.barrier();
    if (in_turn) {
      Turns turns(comm);
      for (int i = 0; i < count; ++i) in_turn_.push_back(run(Company::kInTurn, &turns));
      turns.end();
    }
    comm.barrier();
    for (int i = 0; i < count; ++i) beside_.push_back(run(Company::kBeside, nullptr));
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
