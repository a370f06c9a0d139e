// Core queues: the rules of Linux' scheduler for threads that wake up and cores that become idle.
#include "train/parallel/pipeline/core_queues.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::detail {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kEverywhere = 1.5;        // cores of a task with several threads
constexpr double kMigrationCost = 500e-6;  // seconds: sched_migration_cost_ns
constexpr double kTick = 4e-3;             // at 250 Hz
constexpr double kLeast = 1e-9;            // of a core: rounding
constexpr double kMemory = 46e-3;          // seconds: PELT's half-life of 32 ms

}  // namespace

CoreQueues::CoreQueues(double cores) : cores_(static_cast<size_t>(std::max(1.0, std::round(cores)))) {}

size_t CoreQueues::core_for_new() const {
  const auto least = std::min_element(cores_.begin(), cores_.end(),
                                      [](const Core& a, const Core& b) { return a.load + kLeast < b.load; });
  return static_cast<size_t>(least - cores_.begin());
}

size_t CoreQueues::core_for_woken(size_t last, size_t waker) const {
  for (const size_t core : {last, waker})
    if (is_idle(cores_[core])) return core;
  if (looks_further())
    for (size_t core = 0; core < cores_.size(); ++core)
      if (is_idle(cores_[core])) return core;
  return cores_[waker].load + kLeast < cores_[last].load ? waker : last;
}

/// In the kernel, the number of cores that are looked at is cores * (1 - (1.17 used)^2).
bool CoreQueues::looks_further() const {
  constexpr double kImbalance = 1.17;
  return static_cast<double>(cores_.size()) * (1 - kImbalance * kImbalance * used_ * used_) >= 1;
}

void CoreQueues::begin(size_t task, double load, size_t core, double now) {
  pass_time(now);
  if (load <= 0) return;
  if (load >= kEverywhere) {
    const Place place{.core = core, .load = load / static_cast<double>(cores_.size()), .is_everywhere = true};
    for (auto& one : cores_) add(one, place.load, now);
    places_[task] = place;
    return;
  }
  places_[task] = {.core = core, .load = std::min(1.0, load)};
  cores_[core].tasks.push_back(task);
  add(cores_[core], places_[task].load, now);
}

void CoreQueues::end(size_t task, double now) {
  pass_time(now);
  const auto found = places_.find(task);
  if (found == places_.end()) return;
  const Place place = found->second;
  places_.erase(found);
  if (place.is_everywhere) {
    for (auto& core : cores_) remove(core, place.load, now);
    return;
  }
  std::erase(cores_[place.core].tasks, task);
  remove(cores_[place.core], place.load, now);
}

double CoreQueues::share(size_t task) const {
  const auto found = places_.find(task);
  if (found == places_.end()) return 1;  // it waits
  double most = 1;
  for (size_t core = 0; core < cores_.size(); ++core)
    if (found->second.is_everywhere || core == found->second.core) most = std::max(most, cores_[core].load);
  return 1 / most;
}

double CoreQueues::next_pull() const {
  const Core& from = cores_[fullest()];
  double next = kNever;
  for (const auto& core : cores_) next = std::min(next, pull_time(core, from));
  return next;
}

void CoreQueues::pull(double now) {
  for (auto& core : cores_) {
    Core& from = cores_[fullest()];
    if (pull_time(core, from) > now) continue;
    const size_t task = from.tasks.back();
    auto& place = places_[task];
    place.core = static_cast<size_t>(&core - cores_.data());
    from.tasks.pop_back();
    core.tasks.push_back(task);
    remove(from, place.load, now);
    add(core, place.load, now);
  }
}

void CoreQueues::pass_time(double now) {
  const auto busy = std::count_if(cores_.begin(), cores_.end(), [](const Core& core) { return !is_idle(core); });
  const double part = static_cast<double>(busy) / static_cast<double>(cores_.size());
  used_ = part + (used_ - part) * std::exp((now_ - now) / kMemory);
  now_ = now;
}

size_t CoreQueues::fullest() const {
  const auto most = std::max_element(cores_.begin(), cores_.end(),
                                     [](const Core& a, const Core& b) { return a.tasks.size() < b.tasks.size(); });
  return static_cast<size_t>(most - cores_.begin());
}

double CoreQueues::pull_time(const Core& core, const Core& from) const {
  if (from.tasks.size() < core.tasks.size() + 2) return kNever;
  if (!is_idle(core)) return std::max(core.since, from.since) + kTick;
  return core.since + (core.usual_idle > kMigrationCost ? 0 : kTick);
}

void CoreQueues::add(Core& core, double load, double now) {
  constexpr double kNew = 1.0 / 8;  // of the mean, as in the kernel's update_avg()
  const double most = 2 * kMigrationCost;
  if (is_idle(core) && now > core.since)
    core.usual_idle = std::min(most, core.usual_idle + (now - core.since - core.usual_idle) * kNew);
  core.load += load;
  core.since = now;
}

void CoreQueues::remove(Core& core, double load, double now) {
  core.load = core.load - load > kLeast ? core.load - load : 0;
  core.since = now;
}

}  // namespace penstock::detail
