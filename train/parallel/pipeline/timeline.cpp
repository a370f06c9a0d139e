// Timeline: simulation and drawing.
#include "train/parallel/pipeline/timeline.h"

#include <algorithm>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

using enum Operation::Kind;

constexpr int64_t kMostDrawn = 100'000;  // operations: more than a megabyte of text

int64_t cost_of(const Operation& operation) {
  return (operation.kind == kBackward ? 2 : 1) + (operation.kind != kForward && operation.recomputes ? 1 : 0);
}

std::string label_of(const Operation& operation, bool names_chunk) {
  const char* kind = operation.kind == kForward ? "F" : operation.kind == kWeightGradient ? "W" : "B";
  return concat(kind, operation.micro_batch, names_chunk ? concat(".", operation.chunk) : std::string());
}

class Simulation {
 public:
  explicit Simulation(const std::vector<Schedule>& schedules) : schedules_(schedules), next_(schedules.size(), 0) {
    for (const auto& schedule : schedules)
      for (const auto& operation : schedule) {
        micro_batches_ = std::max(micro_batches_, operation.micro_batch + 1);
        chunks_ = std::max(chunks_, operation.chunk + 1);
      }
    const auto count = schedules.size() * static_cast<size_t>(micro_batches_) * static_cast<size_t>(chunks_);
    for (auto* ends : {&forward_, &backward_}) ends->assign(count, kNotYet);
    timeline_.ranks.resize(schedules.size());
  }

  Timeline run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t rank = 0; rank < schedules_.size(); ++rank)
        while (advance(rank)) moves = true;
    }
    for (size_t rank = 0; rank < schedules_.size(); ++rank)
      if (next_[rank] < schedules_[rank].size())
        throw bug_error(concat("schedule: rank ", rank, " waits for ever before ",
                               label_of(schedules_[rank][next_[rank]], /*names_chunk=*/true)));
    return std::move(timeline_);
  }

 private:
  static constexpr int64_t kNotYet = -1;

  /// Does the next operation of a rank, if it can begin.
  bool advance(size_t rank) {
    if (next_[rank] == schedules_[rank].size()) return false;
    const Operation& operation = schedules_[rank][next_[rank]];
    const int part = operation.chunk * static_cast<int>(schedules_.size()) + static_cast<int>(rank);
    const int64_t there = ready_at(operation, part);
    if (there == kNotYet) return false;
    auto& done = timeline_.ranks[rank];
    const int64_t cost = cost_of(operation);
    // What is needed is needed after the forward that is run again.
    const int64_t early = operation.kind != kForward && operation.recomputes ? 1 : 0;
    const int64_t begin = std::max(done.empty() ? 0 : done.back().end, there - early);
    done.push_back({operation, begin, begin + cost});
    timeline_.end = std::max(timeline_.end, begin + cost);
    if (operation.kind != kWeightGradient)
      (operation.kind == kForward ? forward_ : backward_)[index(part, operation.micro_batch)] = begin + cost;
    ++next_[rank];
    return true;
  }

  /// When what the operation needs is there; kNotYet as long as that is not known.
  int64_t ready_at(const Operation& operation, int part) const {
    const int m = operation.micro_batch, parts = chunks_ * static_cast<int>(schedules_.size());
    if (operation.kind == kForward) return part == 0 ? 0 : forward_[index(part - 1, m)];
    const auto& own = operation.kind == kWeightGradient ? backward_ : forward_;
    if (own[index(part, m)] == kNotYet) return kNotYet;
    return operation.kind == kWeightGradient || part == parts - 1 ? own[index(part, m)] : backward_[index(part + 1, m)];
  }

  size_t index(int part, int micro_batch) const {
    return static_cast<size_t>(part) * static_cast<size_t>(micro_batches_) + static_cast<size_t>(micro_batch);
  }

  const std::vector<Schedule>& schedules_;
  std::vector<size_t> next_;  // one entry per rank
  int micro_batches_ = 0, chunks_ = 0;
  std::vector<int64_t> forward_, backward_;  // ends, by part and micro-batch
  Timeline timeline_;
};

std::string row_of(const std::vector<TimedOperation>& done, int64_t end, bool names_chunk, size_t width) {
  std::vector<std::string> cells(static_cast<size_t>(end), ".");
  for (const auto& [operation, begin, until] : done) {
    std::fill(cells.begin() + begin, cells.begin() + until, std::string(1, '='));
    cells[static_cast<size_t>(begin)] = label_of(operation, names_chunk);
  }
  for (auto& cell : cells) cell.resize(width, ' ');
  std::string row = join(cells, " ");
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

}  // namespace

double Timeline::bubble() const {
  int64_t busy = 0;
  for (const auto& operations : ranks)
    for (const auto& [operation, begin, until] : operations) busy += until - begin;
  const int64_t all = end * static_cast<int64_t>(ranks.size());
  return all > 0 ? static_cast<double>(all - busy) / static_cast<double>(all) : 0;
}

Timeline simulate(const std::vector<Schedule>& ranks) { return Simulation(ranks).run(); }

std::string drawing_of(const SchedulePlan& plan) {
  const int64_t operations = int64_t{3} * plan.ranks * plan.micro_batches * plan.interleave;
  if (operations > kMostDrawn)
    throw config_error(concat("--print-schedule: ", count_text(plan.ranks, "rank"), " and ",
                              count_text(plan.micro_batches, "micro-batch", "micro-batches"),
                              " make a drawing that nobody can read; expected fewer"));
  const auto schedules = schedules_of(plan);
  const auto timeline = simulate(schedules);
  const bool names_chunk = plan.interleave > 1, is_split = schedule_traits(plan.name).splits_backward;
  const bool has_long = !is_split || plan.recompute != Recompute::kNever;
  size_t width = 1;
  for (const auto& done : timeline.ranks)
    for (const auto& one : done) width = std::max(width, label_of(one.operation, names_chunk).size());
  std::string text =
      concat(names_chunk ? "F0.1: forward of micro-batch 0 in the rank's second model chunk, " : "F: forward, ",
             is_split ? "B: gradient of the input, W: of the weights; each takes 1" : "B: backward; F takes 1, B 2",
             plan.recompute == Recompute::kNever ? "" : ", and 1 more where it runs the forward again",
             has_long ? "; = goes on with it" : "", "; a dot is a time in which a rank waits\n");
  std::vector<std::string> alive;
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    std::string name = concat("rank ", rank);
    name.resize(concat("rank ", schedules.size() - 1).size(), ' ');
    text += concat(name, "  ", row_of(timeline.ranks[rank], timeline.end, names_chunk, width), "\n");
    alive.push_back(std::to_string(most_alive(schedules[rank])));
  }
  return text + concat("bubble ", percent_text(timeline.bubble(), 1),
                       " of the time; most alive activations per rank: ", join(alive),
                       names_chunk ? concat(", each of 1/", plan.interleave, " of the rank's blocks") : "", "\n");
}

}  // namespace penstock::detail
