// limit: which resource limits a run, and what other numbers of workers would give.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// What one step of one rank takes, measured. Times are milliseconds per step.
struct ServiceTimes {
  double load_ms = 0;          ///< One worker needs for a rank's part of a batch, with a core whenever it wants one.
  double load_cpu_ms = 0;      ///< Part of `load_ms`: processor time.
  double storage_ms = 0;       ///< Part of `load_ms`: waiting for the storage, as `storage_readers` did at once.
  double storage_readers = 1;  ///< How many threads waited for it at once in the mean, of all ranks; at least 1.
  double storage_gain = 1;     ///< Rate of the storage for many readers / for one, 1 or more.
  double storage_busy_ms = 0;  ///< The storage itself needs for a rank's part of a batch, with many readers.
  double storage_busy_low_ms = 0, storage_busy_high_ms = 0;  ///< Between which it lies; equal where it is known.
  double update_ms = 0;         ///< The step with every batch standing ready and a core for whoever wants one.
  double update_cpu_ms = 0;     ///< Processor time of all threads but the workers'.
  double update_threads = 1;    ///< The training thread and those that compute with it.
  double communication_ms = 0;  ///< Part of `update_ms` in which the rank waited for the others.
  int cores = 1;                ///< Of this machine, for all its ranks together.
  int ranks = 1;                ///< On this machine.
  bool is_async = false;        ///< The device works on its own while the host makes the next batch.
  double other_threads = 0;     ///< Threads of other programs that want a core, in the mean.
};

/// Milliseconds per step with `workers` workers per rank.
///
/// A pipeline is as fast as its slowest resource: the training thread (`update_ms`), the workers (`load_ms / workers`),
/// the storage, whose rate is the same for any number of workers (`storage_busy_ms`), or the cores that all of them
/// share
/// (`ranks * (update_cpu_ms + load_cpu_ms) / cores`). Without workers load and update take turns; beside an
/// asynchronous device load and launches do. Threads that want more cores than there are share them evenly, which holds
/// up the training thread (processor sharing); threads of other programs get their even share too. The operational
/// bounds of queueing networks (Denning and Buzen 1978, "The operational analysis of queueing network models", sec. 4),
/// which batches made ahead come close to.
double predicted_step_ms(const ServiceTimes& times, int workers);

enum class Bound { kLoad, kStorage, kCompute, kCommunication, kCores };

/// The slowest resource with `workers` workers per rank. Loading is bound by the storage where that is more than half
/// of it.
Bound slowest(const ServiceTimes& times, int workers);

/// Threads of other programs that wanted a core, in the mean, when `busy_cores` were busy and this run's threads had
/// `own_cores` of them and waited in the queue for `queued_cores` more: others wait as long for a core as they do. 0
/// where others had less than a tenth of a core.
double other_threads(double busy_cores, double own_cores, double queued_cores);

/// How a run went.
struct Observed {
  ServiceTimes times = {};
  int workers = 0;
  double step_ms = 0;            ///< Milliseconds per step, all in all.
  double wait_ms = 0;            ///< Part of `step_ms`: waiting for the loader.
  double loader_idle_share = 0;  ///< Share of the workers' time in which they had nothing to do, 0..1.
  double images_per_second = 0;
  bool is_emulated = false;
  int64_t step_count = 0;        ///< Measured; 0: not counted. After few, or a short time, the sentence says so.
  double process_queued_ms = 0;  ///< Per step: all threads of this rank could run and had no core; of some use with
                                 ///< `update_threads` above 1 alone.
  double queued_ms = 0;          ///< Per step: threads of this rank could run and had no core.
  double busy_cores = 0;         ///< Cores of the machine that were busy, in the mean, whoever had them; 0: not known.
  double image_bytes = 0;        ///< As stored, in the mean; 0: not known.
  double storage_bytes = 0;      ///< Per step, read from block devices; 0: none, or the file system does not count.
  double disk_bytes_per_second = 0;  ///< The most that the storage gives to many readers; 0: not measured.
  double coefficient_share = 0;      ///< What --encode coef would store / what is stored; 0: not known, or no change.
};

/// Fills in the storage's gain and how long it is busy. `one` and `most`: its rates in bytes per second for one reader
/// and for many; 0: not measured.
///
/// A reader that waits tells how long the storage is busy at least, but not at most: the kernel reads ahead while the
/// reader works. Where block devices count the bytes, these divided by the rate are the time. Elsewhere it lies between
/// the waiting and the whole step, and is taken to be the nearer to the step the more of it is waiting.
void settle_storage(Observed& run, double one, double most);

/// Cores that other programs had, in the mean.
double other_cores(const Observed& run);

/// The rate with a number of workers. Where other programs ran beside, or where it is not known whether the storage
/// gives more to more readers, the rate lies from `low` to `high`; elsewhere both are the rate itself.
struct Prediction {
  int workers = 0;
  double images_per_second = 0, low = 0, high = 0;
};

struct Limit {
  Bound bound = Bound::kCompute;
  int best_workers = 0;  ///< What the sentence advises: more where they give 5 % or more, fewer where they would do.
  double speed_up = 1;   ///< Predicted rate with them / predicted rate with the run's own.
  double limit = 1;      ///< The same, if batches cost nothing.
  std::vector<Prediction> predictions;  ///< [w]: with w workers. The sentence's numbers are from here.
  std::string sentence;                 ///< One line for people.
};

/// The slowest resource of the model, and the sentence that a run ends with:
///
///     load-bound: the trainer waited 71 % of the time; 2 more workers would give about 2.1x (14,300 images/s), the
///     limit is 3.9x (compute)
Limit find_limit(const Observed& run);

std::string rate_text(double images_per_second);  ///< "14,300 images/s"
const char* name_of(Bound bound);                 ///< load, storage, compute, communication, cores

}  // namespace penstock
