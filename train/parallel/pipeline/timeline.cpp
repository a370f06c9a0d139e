// Timeline: operations as tasks of one stream per rank.
#include "train/parallel/pipeline/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "train/parallel/pipeline/task_times.h"

namespace penstock::detail {
namespace {

using enum Operation::Kind;

/// A task that takes as long as it takes, whatever the others do.
Task unit_task(size_t rank, double units, std::vector<size_t> after = {}) {
  return {.stream = rank, .work = Work::of(units), .cores = 0, .after = std::move(after)};
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
  const int last_part = placement.part_count() - 1;
  std::vector<Task> tasks;
  std::vector<std::vector<size_t>> numbers(ranks.size());  // of the operations' tasks
  std::map<std::tuple<bool, int, int>, size_t> made_by;    // outputs (true) and gradients by part and micro-batch
  add_operations(ranks, [&](size_t rank, size_t place) {
    const Operation& one = ranks[rank][place];
    const int part = placement.part_of(static_cast<int>(rank), one.chunk);
    std::vector<size_t> after;
    const auto is_there = [&](bool is_output, int of) {
      const auto found = made_by.find({is_output, of, one.micro_batch});
      if (found != made_by.end()) after.push_back(found->second);
      return found != made_by.end();
    };
    if (one.kind == kForward          ? part > 0 && !is_there(true, part - 1)
        : one.kind == kWeightGradient ? !is_there(false, part)
                                      : !is_there(true, part) || (part < last_part && !is_there(false, part + 1)))
      return false;
    if (one.recomputes && one.kind != kForward) tasks.push_back(unit_task(rank, thirds_of(kForward)));
    tasks.push_back(unit_task(rank, thirds_of(one.kind), std::move(after)));
    numbers[rank].push_back(tasks.size() - 1);
    if (one.kind != kWeightGradient) made_by[{one.kind == kForward, part, one.micro_batch}] = tasks.size() - 1;
    return true;
  });
  const auto times = run_tasks(tasks, /*cores=*/1);
  Timeline timeline{.ranks = std::vector<std::vector<TimedOperation>>(ranks.size())};
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t place = 0; place < ranks[rank].size(); ++place) {
      const Operation& one = ranks[rank][place];
      const auto& [begin, end] = times[numbers[rank][place]];
      // A forward is run again as late as it can be, so that its activations live as short as they can.
      const int64_t again = one.recomputes && one.kind != kForward ? 1 : 0;
      timeline.ranks[rank].push_back({one, std::llround(begin) - again, std::llround(end)});
      timeline.end = std::max(timeline.end, timeline.ranks[rank].back().end);
    }
  return timeline;
}

}  // namespace penstock::detail
