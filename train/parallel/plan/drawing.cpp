// Drawing: a cell for each unit of time.
#include "train/parallel/plan/drawing.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/parallel/pipeline/schedule_file.h"
#include "train/parallel/pipeline/timeline.h"

namespace penstock::detail {
namespace {

using enum Operation::Kind;

constexpr int64_t kMostDrawn = 100'000;  // operations: more than a megabyte of text

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

std::string drawing_of(const StepPlan& step) {
  const SchedulePlan& plan = step.schedule;
  const int64_t operations = int64_t{3} * plan.ranks * plan.micro_batches * plan.interleave;
  if (operations > kMostDrawn)
    throw config_error(concat("--print-schedule: ", count_text(plan.ranks, "rank"), " and ",
                              count_text(plan.micro_batches, "micro-batch", "micro-batches"),
                              " make a drawing that nobody can read; expected fewer"));
  const auto placed = placed_schedules(step);
  const auto& schedules = placed.ranks;
  const auto timeline = simulate(schedules, placed.placement);
  const Labels labels = labels_of(schedules);
  const bool has_long = labels.has_whole || plan.recompute != Recompute::kNever;
  size_t width = 1;
  for (const auto& done : timeline.ranks)
    for (const auto& one : done) width = std::max(width, labels.of(one.operation).size());
  std::string text = concat(
      plan.name, " of ", count_text(plan.micro_batches, "micro-batch", "micro-batches"), " over ",
      count_text(plan.ranks, "rank"),
      step.mesh.data > 1 ? concat(", the same in each of ", step.mesh.data, " copies of the model") : "", "\n",
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
  const bool is_even = placed.placement.part_count() == plan.ranks * plan.interleave;
  return text +
         concat("bubble ", percent_text(timeline.bubble(), 1),
                " of the time; most alive activations per rank: ", join(alive),
                labels.names_chunk && is_even ? concat(", each of 1/", plan.interleave, " of the rank's blocks") : "",
                "\n");
}

std::string csv_of(const StepPlan& plan) { return csv_of(placed_schedules(plan)); }

}  // namespace penstock::detail
