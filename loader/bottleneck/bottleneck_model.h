// The model behind bottleneck.h: how long a step takes with other numbers of workers, and which resource is the
// slowest.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock {

/// What the threads that compute a step together do with their cores while workers want them: share them evenly, keep
/// them by spinning, or give way.
enum class CorePolicy { kShare, kKeep, kYield };

/// What one step of one rank takes, as measured. Times are milliseconds per step.
struct StepCosts {
  double load_ms = 0;          ///< One worker, which always gets a core, makes a rank's part of a batch in this time.
  double load_cpu_ms = 0;      ///< Part of `load_ms`: processor time.
  double storage_ms = 0;       ///< Part of `load_ms`: waiting for the storage, while `storage_readers` waited at once.
  double storage_readers = 1;  ///< Mean number of threads of all ranks that waited for it at once; at least 1.
  double storage_gain = 1;     ///< Rate of the storage for many readers / rate for one; 1 or more.
  double storage_busy_ms = 0;  ///< The storage is busy for this time with a rank's part of a batch, with many readers.
  /// The range of storage_busy_ms; both are equal if it is known.
  double storage_busy_low_ms = 0, storage_busy_high_ms = 0;
  double link_ms = 0;          ///< Part of `load_ms`: a lone worker's waits for shards that nobody fetches ahead.
  double link_latency_ms = 0;  ///< Part of `link_ms` that no faster link would save: the delays of its requests.
  double link_busy_ms = 0;     ///< In this time the bytes of a batch come from far away, for all ranks of this machine.
  double link_delays_ms = 0;   ///< The delays of the requests ahead of a batch, each of which waits with others.
  double link_requests = 1;    ///< So many of them are under way at once.
  double update_ms = 0;        ///< The step, if every batch were ready and every thread had a core.
  double update_cpu_ms = 0;    ///< Processor time of all threads except the workers, without `spun_ms`.
  double spun_ms = 0;          ///< The same threads spun for this time while one of them had no core.
  double update_threads = 1;   ///< The training thread and those that compute with it.
  double communication_ms = 0;  ///< Part of `update_ms` in which the rank waited for the others.
  int cores = 1;                ///< Cores of this machine, for all its ranks together.
  int ranks = 1;                ///< Ranks on this machine.
  bool is_async = false;        ///< The device works on its own while the host makes the next batch.
  CorePolicy crowding = CorePolicy::kShare;
  double other_threads = 0;     ///< Mean number of threads of other programs that want a core.
  double spinning_threads = 0;  ///< Mean number of this run's own threads that spin or queue instead of computing.
};

/// Milliseconds per step with `workers` workers per rank.
///
/// A pipeline is as fast as its slowest resource: the training thread (`update_ms`), the workers (`load_ms / workers`),
/// the storage and the link, whose rates are the same for any number of workers (`storage_busy_ms`, `link_busy_ms`, and
/// the requests ahead, each of which waits for its delay and its bytes), or the cores that all of them share (`ranks *
/// (update_cpu_ms + load_cpu_ms) / cores`). Without workers, load and update take turns; with an asynchronous device,
/// load and the launches take turns. If threads want more cores than there are, they share them evenly (processor
/// sharing), which delays the training thread; threads of other programs get an even share too. These are the
/// operational bounds of queueing networks (Denning and Buzen 1978, "The operational analysis of queueing network
/// models", sec. 4). A pipeline that makes batches ahead comes close to them.
double predicted_step_ms(const StepCosts& times, int workers);

enum class Resource { kLoad, kStorage, kLink, kCompute, kCommunication, kCores, kBubble, kPart };

/// The slowest resource with `workers` workers per rank. If loading is the slowest, it is the storage that limits where
/// waiting for it is more than half of the loading, and likewise the link.
Resource slowest(const StepCosts& times, int workers);

/// Mean number of threads of other programs that wanted a core. `busy_cores` were busy; this run's threads had
/// `own_cores` of them and queued for `queued_cores` more. Other threads are assumed to queue for a core as long as the
/// run's own. 0 if others had less than a tenth of a core.
double other_threads(double busy_cores, double own_cores, double queued_cores);

/// What the link brings per step, in epochs after the first, with a cache of another size.
struct CacheCase {
  uint64_t cache_bytes = 0;
  double link_bytes = 0;
};

/// How a run went.
struct LoopMeasurement {
  StepCosts times = {};
  int workers = 0;
  double step_ms = 0;            ///< The whole step, in milliseconds.
  double wait_ms = 0;            ///< Part of `step_ms`: waiting for the loader.
  double loader_idle_share = 0;  ///< Share of the workers' time, 0..1, in which they had nothing to do.
  double images_per_second = 0;
  bool is_emulated = false;
  int64_t step_count = 0;  ///< Steps measured; 0: not counted. If they are few or short, the sentence says so.
  /// Per step: time that threads of this rank queued for a core, summed over all its threads; used only if
  /// `update_threads` is above 1.
  double process_queued_ms = 0;
  double queued_ms = 0;    ///< Per step: time that the training thread and the workers of this rank queued for a core.
  double busy_cores = 0;   ///< Mean number of cores of the machine that were busy, with any program; 0: not known.
  double image_bytes = 0;  ///< Mean number of stored bytes per image; 0: not known.
  double storage_bytes = 0;  ///< Bytes per step read from block devices; 0: none, or the file system does not count.
  double disk_bytes_per_second = 0;  ///< Rate of the storage for many readers; 0: not measured.
  double link_bytes = 0;             ///< Bytes per step that came from far away; 0: none.
  double link_bytes_per_second = 0;  ///< Rate of the link of this machine while bytes came; 0: none came.
  double link_delay_ms = 0;          ///< From a request to its first byte, the mean; 0: no request.
  double link_request_bytes = 0;     ///< Bytes per request.
  double cache_share = 0;            ///< Share of the bytes of the images, 0..1, that the link did not bring.
  std::vector<CacheCase>
      cache_cases{};             ///< One entry per size that was looked at, by ascending sizes; none: not known.
  double coefficient_share = 0;  ///< Bytes that --encode coef would store / bytes stored now; 0: not known, or no gain.
};

/// The rate over another link, or with another cache and in epochs after the first, with the run's own workers.
struct LinkPrediction {
  double link_factor = 1;    ///< Times the rate of the link.
  uint64_t cache_bytes = 0;  ///< 0: the run's own.
  double images_per_second = 0;
};

/// Fills in the gain of the storage and how long it is busy. `one` and `most` are its rates in bytes per second for one
/// reader and for many; 0: not measured.
///
/// The storage is busy at least as long as a reader waits for it, but it may be busy for longer, because the kernel
/// reads ahead while the reader works. If block devices count the bytes, the busy time is the bytes divided by the
/// rate, unless that explains less than half of the waiting, as where only the program itself is on a block device.
/// Otherwise it is between the waiting time and the whole step; it is assumed to be the closer to the step, the
/// larger the share of waiting in the step is.
void settle_storage(LoopMeasurement& run, double one, double most);

/// The same step over another link or with another cache: `rate_factor` times the bytes per second, `bytes_factor`
/// times the bytes. Delays stay per byte fetched what they are.
StepCosts with_link(StepCosts times, double rate_factor, double bytes_factor);

/// The same bytes in `factor` times as many requests.
StepCosts with_requests(StepCosts times, double factor);

namespace detail {

/// A rate within 2 % of the best counts as the best, so that fewer threads are advised.
inline constexpr double kAsGood = 1.02;
/// Two runs of one command differ by up to 5 % (docs/reports/finding.md: ranges over repeats). Therefore more workers
/// are advised only if they give 5 % more, and fewer only if they would still be enough with batches that take 5 %
/// longer. Between the two the sentence says neither, so that noise cannot turn "1 worker would be enough" into "1 more
/// worker would give 1.05x".
inline constexpr double kNoise = 1.05;

}  // namespace detail

/// Mean number of cores that other programs had.
double other_cores(const LoopMeasurement& run);

}  // namespace penstock
