// limit: which resource limits a run, and what other numbers of workers would give.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// What one step of one rank takes, measured. Times are milliseconds a step.
struct ServiceTimes {
  double load_ms = 0;           ///< One worker needs for a rank's part of a batch, with a core whenever it wants one.
  double load_cpu_ms = 0;       ///< Of it, processor time; the rest is waiting for the disk.
  double update_ms = 0;         ///< The step with every batch standing ready and a core for whoever wants one.
  double update_cpu_ms = 0;     ///< Processor time of all threads but the workers'.
  double communication_ms = 0;  ///< Part of `update_ms` in which the rank waited for the others.
  int cores = 1;                ///< Of this machine, for all its ranks together.
  int ranks = 1;                ///< On this machine.
  bool is_async = false;        ///< The device works on its own while the host makes the next batch.
};

/// Milliseconds a step with `workers` workers a rank.
///
/// A pipeline is as fast as its slowest resource: the training thread (`update_ms`), the workers (`load_ms / workers`),
/// or the cores that both share (`ranks * (update_cpu_ms + load_cpu_ms) / cores`). Without workers load and update take
/// turns; beside an asynchronous device load and launches do. Threads that want more cores than there are share them
/// evenly, which holds up the training thread (processor sharing). The operational bounds of queueing networks (Denning
/// and Buzen 1978, "The operational analysis of queueing network models", sec. 4), which batches made ahead come close
/// to.
double predicted_step_ms(const ServiceTimes& times, int workers);

/// How a run went.
struct Observed {
  ServiceTimes times = {};
  int workers = 0;
  double step_ms = 0;            ///< Milliseconds a step, all in all.
  double wait_ms = 0;            ///< Of them, for the loader.
  double loader_idle_share = 0;  ///< Share of the workers' time in which they had nothing to do, 0..1.
  double images_per_second = 0;
  bool is_emulated = false;
  int64_t step_count = 0;  ///< Measured; 0: not counted. Of few the sentence says so.
};

enum class Bound { kLoad, kCompute, kCommunication, kCores };

struct Limit {
  Bound bound = Bound::kCompute;
  int best_workers = 0;  ///< What the sentence advises: more where they give 5 % or more, fewer where they would do.
  double speed_up = 1;   ///< Predicted rate with them / predicted rate with the run's own.
  double limit = 1;      ///< The same, if batches cost nothing.
  std::string sentence;  ///< One line for people.
};

/// The slowest resource of the model, and the sentence that a run ends with:
///
///     load-bound: the trainer waited 71 % of the time; 2 more workers would give about 2.1x (14,300 images/s), the
///     limit is 3.9x (compute)
Limit find_limit(const Observed& run);

std::string rate_text(double images_per_second);  ///< "14,300 images/s"
const char* name_of(Bound bound);                 ///< load, compute, communication, cores

}  // namespace penstock
