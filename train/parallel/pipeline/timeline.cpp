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

/// How a drawing writes operations.
struct Labels {
  bool names_chunk = false;
  bool has_whole = false, has_halves = false;  // backwards: then B is a whole one, and I the first half

  std::string of(const Operation& operation) const {
    const char* const first_half = has_whole ? "I" : "B";
    const char* const kind = operation.kind == kForward          ? "F"
                             : operation.kind == kWeightGradient ? "W"
                             : operation.kind == kBackward       ? "B"
                                                                 : first_half;
    return concat(kind, operation.micro_batch, names_chunk ? concat(".", operation.chunk) : std::string());
  }

  std::string meaning() const {
    if (!has_halves) return "B: backward; F takes 1, B 2";
    if (!has_whole) return "B: gradient of the input, W: of the weights; each takes 1";
    return "B: backward, I: gradient of the input, W: of the weights; B takes 2, the others 1";
  }
};

Labels labels_of(const std::vector<Schedule>& schedules) {
  Labels labels;
  for (const auto& schedule : schedules)
    for (const auto& operation : schedule) {
      labels.names_chunk |= operation.chunk > 0;
      labels.has_whole |= operation.kind == kBackward;
      labels.has_halves |= operation.kind == kInputGradient;
    }
  return labels;
}

class Simulation {
 public:
  Simulation(const std::vector<Schedule>& schedules, const Placement& placement)
      : schedules_(schedules), placement_(placement), next_(schedules.size(), 0) {
    for (const auto& schedule : schedules)
      for (const auto& operation : schedule) micro_batches_ = std::max(micro_batches_, operation.micro_batch + 1);
    const auto count = static_cast<size_t>(micro_batches_) * static_cast<size_t>(placement.part_count());
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
                               Labels{.names_chunk = true}.of(schedules_[rank][next_[rank]])));
    return std::move(timeline_);
  }

 private:
  static constexpr int64_t kNotYet = -1;

  /// Does the next operation of a rank, if it can begin.
  bool advance(size_t rank) {
    if (next_[rank] == schedules_[rank].size()) return false;
    const Operation& operation = schedules_[rank][next_[rank]];
    const int part = placement_.part_of(static_cast<int>(rank), operation.chunk);
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
    const int m = operation.micro_batch, parts = placement_.part_count();
    if (operation.kind == kForward) return part == 0 ? 0 : forward_[index(part - 1, m)];
    const auto& own = operation.kind == kWeightGradient ? backward_ : forward_;
    if (own[index(part, m)] == kNotYet) return kNotYet;
    return operation.kind == kWeightGradient || part == parts - 1 ? own[index(part, m)] : backward_[index(part + 1, m)];
  }

  size_t index(int part, int micro_batch) const {
    return static_cast<size_t>(part) * static_cast<size_t>(micro_batches_) + static_cast<size_t>(micro_batch);
  }

  const std::vector<Schedule>& schedules_;
  const Placement& placement_;
  std::vector<size_t> next_;  // one entry per rank
  int micro_batches_ = 0;
  std::vector<int64_t> forward_, backward_;  // ends, by part and micro-batch
  Timeline timeline_;
};

std::string row_of(const std::vector<TimedOperation>& done, int64_t end, const Labels& labels, size_t width) {
  std::vector<std::string> cells(static_cast<size_t>(end), ".");
  for (const auto& [operation, begin, until] : done) {
    std::fill(cells.begin() + begin, cells.begin() + until, std::string(1, '='));
    cells[static_cast<size_t>(begin)] = labels.of(operation);
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

Timeline simulate(const std::vector<Schedule>& ranks, const Placement& placement) {
  return Simulation(ranks, placement).run();
}

std::string drawing_of(const SchedulePlan& plan) {
  const int64_t operations = int64_t{3} * plan.ranks * plan.micro_batches * plan.interleave;
  if (operations > kMostDrawn)
    throw config_error(concat("--print-schedule: ", count_text(plan.ranks, "rank"), " and ",
                              count_text(plan.micro_batches, "micro-batch", "micro-batches"),
                              " make a drawing that nobody can read; expected fewer"));
  const auto schedules = schedules_of(plan);
  const auto placement = placement_of(plan);
  const auto timeline = simulate(schedules, placement);
  const Labels labels = labels_of(schedules);
  const bool has_long = labels.has_whole || plan.recompute != Recompute::kNever;
  size_t width = 1;
  for (const auto& done : timeline.ranks)
    for (const auto& one : done) width = std::max(width, labels.of(one.operation).size());
  std::string text = concat(
      labels.names_chunk ? "F0.1: forward of micro-batch 0 in the rank's second model chunk, " : "F: forward, ",
      labels.meaning(), plan.recompute == Recompute::kNever ? "" : ", and 1 more where it runs the forward again",
      has_long ? "; = goes on with it" : "", "; a dot is a time in which a rank waits\n");
  std::vector<std::string> alive;
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    std::string name = concat("rank ", rank);
    name.resize(concat("rank ", schedules.size() - 1).size(), ' ');
    text += concat(name, "  ", row_of(timeline.ranks[rank], timeline.end, labels, width), "\n");
    alive.push_back(std::to_string(most_alive(schedules[rank])));
  }
  const bool is_even = placement.part_count() == plan.ranks * plan.interleave;
  return text +
         concat("bubble ", percent_text(timeline.bubble(), 1),
                " of the time; most alive activations per rank: ", join(alive),
                labels.names_chunk && is_even ? concat(", each of 1/", plan.interleave, " of the rank's blocks") : "",
                "\n");
}

}  // namespace penstock::detail
