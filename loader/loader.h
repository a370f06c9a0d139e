// Loader: batches, in order, built ahead of time by many workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "augment/transform.h"
#include "loader/codecs/codec.h"
#include "loader/dataset.h"
#include "loader/partition.h"

namespace penstock {

enum class Shuffle { kNone, kGlobal, kRankLocal };
enum class OnCorrupt { kFail, kSubstitute };

/// Where slots come from: the trainer injects pinned memory. `allocate` gives at least 64-byte aligned memory, or null
/// when there is none left. Called by the loader's constructor and destructor alone.
struct SlotAllocator {
  std::function<void*(size_t byte_count)> allocate;
  std::function<void(void*, size_t byte_count)> release;
};

/// A part of a batch that a worker made: rows [begin_row, end_row), in the time [begin_ns, end_ns) of now_ns().
struct ChunkTime {
  int worker = 0;  ///< From 0; with workers 0 the caller's thread.
  int64_t epoch = 0, batch = 0;
  int64_t begin_row = 0, end_row = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

struct LoaderOptions {
  int workers = 0;          ///< Threads that make samples; 0: the caller's thread makes them inside next().
  int prefetch = 4;         ///< Batches made ahead of the one that next() gave last.
  int64_t batch_size = 64;  ///< Of all ranks together.
  int rank = 0, world_size = 1;
  Tail tail = Tail::kPad;
  Shuffle shuffle = Shuffle::kGlobal;
  uint64_t seed = 0;
  int64_t epoch_count = -1;  ///< Nothing is made ahead for epochs from this one on; -1: no end.
  Layout layout = Layout::kF32Nchw;
  OnCorrupt on_corrupt = OnCorrupt::kFail;
  DecodePath decode = DecodePath::kAuto;  ///< Of JPEGs; every path gives the same bytes.
  /// Decode JPEGs at the DCT scale that still gives a pixel for every output pixel. Changes the bytes: part of what a
  /// digest depends on.
  bool scales_dct = true;
  int64_t emulated_load_ns = 0;  ///< Processor time wasted on every sample, as a slower library would need it.
  SlotAllocator allocator = {};  ///< Empty: the heap.
  /// Called behind every chunk by the worker that made it, by several at once; a chunk takes about 100 us. Empty:
  /// nobody looks on.
  std::function<void(const ChunkTime&)> on_chunk = {};
};

/// What Dataset::open() has to open for a loader with these options: with rank-local shuffling a rank's own shards
/// alone.
inline ShardShare needed_shards(const LoaderOptions& options) {
  if (options.shuffle != Shuffle::kRankLocal) return {};
  return {options.rank, options.world_size};
}

/// One rank's part of a global batch, in a slot of its loader. The slot goes back when the Batch is destroyed.
///
/// Rows 0 .. count-1 hold samples; rows count .. rows-1 have weight 0, label 0, id ~0 and zeroed pixels. A substituted
/// row (OnCorrupt) counts as a sample and keeps label and id, with weight 0 and zeroed pixels. In a mix a row whose
/// partner is corrupt is substituted too; padding rows have second label 0 and mix weight 1, and are nobody's partner.
///
/// Thread-safety: a Batch may be released on any thread; it must not outlive its loader.
class Batch {
 public:
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  int64_t epoch() const;
  int64_t index() const;            ///< Of the batch in its epoch.
  int64_t rows() const;             ///< Rows allocated: Partition::rows_per_rank().
  int64_t count() const;            ///< Rows with a sample.
  int64_t global_count() const;     ///< Samples of all ranks in this batch.
  uint64_t first_position() const;  ///< Row i stands at first_position() + i of the epoch.
  Extent extent() const;            ///< Of one rendered sample.
  Layout layout() const;
  std::span<const std::byte> pixels() const;  ///< f32 rows x C x H x W, or u8 rows x H x W x C.
  std::span<const int64_t> labels() const;
  std::span<const uint64_t> ids() const;
  std::span<const float> weights() const;  ///< 1, or 0 for padding and substituted rows.
  /// Of the sample that was mixed into the row (mixup, cutmix); empty without such a transform, as mix_weights().
  std::span<const int64_t> second_labels() const;
  std::span<const float> mix_weights() const;  ///< The share of the row's own label; 1 where nothing was mixed in.

  /// The same, to write into. The slot is this batch's alone until it goes back, and the loader then writes all of it
  /// anew: what is changed here reaches no other batch.
  struct Arrays {
    std::span<std::byte> pixels;
    std::span<int64_t> labels;
    std::span<uint64_t> ids;
    std::span<float> weights;
    std::span<int64_t> second_labels;
    std::span<float> mix_weights;
  };
  Arrays arrays();

 private:
  friend class Loader;
  struct Handle;
  explicit Batch(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

/// Sums over all workers since construction. Stages of a sample: read (place in the epoch, map, CRC), plan, decode,
/// render.
///
/// A clock call costs about 25 ns and a small sample 1 us, so not every sample is timed: `read` is timed over up to 64
/// samples at once; the others on one sample in 17 as long as a sample takes under 20 us, and on every one above.
/// `count` is the number of samples made; totals are the mean of the timed ones times that.
struct LoaderStatistics {
  struct Stage {
    uint64_t count = 0;
    double total_ms = 0;
    double p99_us = 0;  // from a log-scaled histogram: within 10 %
    double mean_us() const { return count == 0 ? 0 : total_ms * 1e3 / static_cast<double>(count); }
  };
  /// One worker; of workers 0 the caller's thread.
  struct Worker {
    double read_ms = 0, plan_ms = 0, decode_ms = 0, render_ms = 0;
    double busy_ms = 0;          // making rows, by the clock on the wall
    double idle_ms = 0;          // the rest of the time since construction
    double cpu_ms = 0;           // processor time of its thread; for workers 0, of making rows alone
    double queued_ms = 0;        // it could run and had no core; for workers 0, estimated for making rows alone
    double storage_ms = 0;       // of busy_ms, neither running nor queued: waiting for pages of the shards
    uint64_t major_faults = 0;   // pages that it waited for; 0: storage_ms is 0 too
    uint64_t storage_bytes = 0;  // read for it from block devices; 0 on FUSE and network file systems
  };
  Stage read, decode, plan, render;  // a sample
  Stage wait;                        // a call of next(): how long the consumer waited
  uint64_t batch_count = 0;
  uint64_t ready_count = 0;  // batches that stood ready when they were asked for
  uint64_t substituted_count = 0;
  uint64_t sample_bytes = 0;  // as stored, of the samples made
  std::vector<Worker> workers;

  /// Fills in every worker's storage_ms; Loader::statistics() has done so. While it makes rows, a worker has no other
  /// reason to sleep than a page that is not in memory. Faults of any worker tell that there was such a page: another
  /// one may have waited for the same page without a fault of its own.
  void find_storage_waits();
  /// What a sample waited for the storage in the mean; part of the other stages, mostly of read and decode. Without a
  /// histogram: p99_us is 0.
  Stage storage() const;
};

/// Determinism: the bytes of batch k of epoch e depend on (data set, pipeline, seed, shuffle, tail, batch size, e, k)
/// and, for which rows are this rank's, on rank and world size; on nothing else: not on workers, prefetch or timing.
///
/// Memory: prefetch + 2 slots, one allocation each, made by the constructor and then reused for all epochs: batch k,
/// counted over epochs, always stands in slot k mod (prefetch + 2). Two batches may be held without anything standing
/// still.
///
/// Errors: the constructor throws config_error. What a worker throws is rethrown by the next() that would have returned
/// that batch, naming shard, sample id and byte offset; the following next() goes on with the batch after it. Of
/// several in one batch it is the one of the lowest row. With OnCorrupt::kSubstitute a corrupt sample does not throw:
/// its row is zeroed and gets weight 0. A shard that is cut short while it is read, or a disk error, is an io_error in
/// either case; the next() that ends an epoch throws it too, where the cut hit no page that was read.
///
/// Rank-local shuffling: rank r opens shards r, r + world size, ... alone, and the position of a row counts through
/// rank 0's samples, then rank 1's, ...
///
/// Mixing: mixup and cutmix mix the rows of the global batch whatever the ranks; with rank-local shuffling those of the
/// rank. A partner is read, decoded and rendered for the row that it is mixed into, so a sample costs twice as much,
/// and the statistics count it twice.
///
/// Thread-safety: start_epoch() and next() are for one consumer thread.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, LoaderOptions options);
  ~Loader();  ///< At any moment: waits for the samples in work, drops the rest.

  /// The next next() returns batch `first_batch` of `epoch`. When that is where the loader stands already (the epoch
  /// after the one that just ended), what was made ahead is used; otherwise it is dropped.
  void start_epoch(int64_t epoch, int64_t first_batch = 0);

  /// Blocks until the batch is ready, without spinning. Nothing at the end of the epoch. Requires start_epoch(), and
  /// that not all prefetch + 2 batches are held: then it waits until one is released on another thread.
  std::optional<Batch> next();

  int64_t batches_per_epoch() const;   ///< At every rank the same: the steps of an epoch.
  uint64_t samples_per_epoch() const;  ///< Of this rank, padding not counted.
  Extent extent() const;               ///< Of one rendered sample.
  const LoaderOptions& options() const;
  size_t slot_bytes() const;            ///< Of all slots together.
  LoaderStatistics statistics() const;  ///< Any thread.

 private:
  friend class Batch;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
