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
#include "loader/order/partition.h"
#include "loader/shards/dataset.h"

namespace penstock {

enum class Shuffle { kNone, kGlobal, kRankLocal };
enum class OnCorrupt { kFail, kSubstitute };

/// When JPEGs are decoded at the smallest DCT scale at which every output pixel still covers a decoded pixel. That
/// changes the pixels, and with them the digest; docs/TRANSFORMS.md says how much.
enum class DctScale {
  kAuto,  ///< Where the transforms draw at random, as in training. An evaluation has the pixels of the whole picture.
  kAlways,
  kOff,
};

/// Whether a loader with this option and these transforms decodes at smaller DCT scales.
inline bool scales_dct(DctScale option, const Pipeline& pipeline) {
  return option == DctScale::kAlways || (option == DctScale::kAuto && !pipeline.is_deterministic());
}

/// Gives a loader the memory of its slots. The trainer passes one that gives pinned memory. `allocate` returns memory
/// aligned to 64 bytes or more, or null when there is none left. Only the loader's constructor and destructor call
/// these functions; with LoaderOptions::gives_batches_away also next(), and whoever destroys a batch, on any thread.
struct SlotAllocator {
  std::function<void*(size_t byte_count)> allocate;
  std::function<void(void*, size_t byte_count)> release;
};

/// A chunk that a worker made: rows [begin_row, end_row) of a batch, from begin_ns to end_ns of now_ns().
struct ChunkTime {
  int worker = 0;  ///< From 0. With workers 0 it is 0: the thread that calls next().
  int64_t epoch = 0, batch = 0;
  int64_t begin_row = 0, end_row = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

struct LoaderOptions {
  int workers = 0;          ///< Threads that make rows; 0: the thread that calls next() makes them.
  int prefetch = 4;         ///< Batches made ahead of the one that next() returned last.
  int64_t batch_size = 64;  ///< Samples per batch, of all ranks together.
  int rank = 0, world_size = 1;
  Tail tail = Tail::kPad;
  ShortBatch short_batch = ShortBatch::kEvenly;  ///< Not with rank-local shuffling.
  Shuffle shuffle = Shuffle::kGlobal;
  uint64_t seed = 0;
  int64_t epoch_count = -1;  ///< Batches of this epoch and later ones are not made ahead; -1: no such limit.
  Layout layout = Layout::kF32Nchw;
  OnCorrupt on_corrupt = OnCorrupt::kFail;
  DecodePath decode = DecodePath::kAuto;  ///< How JPEGs are decoded; every path gives the same bytes.
  DctScale dct_scale = DctScale::kAuto;
  int64_t emulated_load_ns = 0;  ///< Processor time wasted per sample, to emulate a slower loader.
  /// Once this is true no more time is wasted. Workers call it every 10 ms, several at once. Empty: it is never true.
  std::function<bool()> ends_emulated_load = {};
  SlotAllocator allocator = {};  ///< Empty: slots are on the heap.
  /// Called after every chunk, by the worker that made it; several workers may call it at once. A chunk takes about 100
  /// us. Empty: nothing is called.
  std::function<void(const ChunkTime&)> on_chunk = {};
  /// Called by next() about ten times per second while it waits for a batch that workers make. What it throws comes out
  /// of next(), and the following next() returns that batch. Empty: nothing is called.
  std::function<void()> on_wait = {};
  /// Whether a batch takes its memory along. Then any number of batches may be held for any time, also after the loader
  /// is gone, and none of them stops the loader: next() gives the slot other memory, from a pool that grows by need.
  bool gives_batches_away = false;
  /// Which samples somebody else decodes, by their index in the data set. Of their rows only label, id and weight 1 are
  /// written; their bytes are not read, so that they cannot be corrupt. Several workers may call it at once. Requires
  /// transforms that mix no rows. Empty: the loader makes all rows.
  std::function<bool(uint64_t index)> leaves_out = {};
};

/// The shards that Dataset::open() has to open for a loader with these options: with rank-local shuffling only the
/// rank's own shards, otherwise all.
inline RankShards needed_shards(const LoaderOptions& options) {
  if (options.shuffle != Shuffle::kRankLocal) return {};
  return {options.rank, options.world_size};
}

/// How the loader with these options divides an epoch over steps and ranks. Throws config_error as Partition does, and
/// where rank-local shuffling has fewer shards than ranks.
Partition partition_of(const Dataset& dataset, const LoaderOptions& options);

/// One rank's part of a global batch, in a slot of its loader. The slot goes back to the loader when the Batch is
/// destroyed.
///
/// Rows 0 .. count-1 hold samples. Rows count .. rows-1 are padding, with weight 0, label 0, id ~0 and zeroed pixels. A
/// substituted row (OnCorrupt) counts as a sample and keeps its label and id, but has weight 0 and zeroed pixels. In a
/// mix, a row whose partner is corrupt is substituted too. Padding rows have second label 0 and mix weight 1, and are
/// no row's partner.
///
/// Thread-safety: a Batch may be released on any thread; it must not outlive its loader, unless that gives its batches
/// away (LoaderOptions).
class Batch {
 public:
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  int64_t epoch() const;
  int64_t index() const;            ///< The number of the batch in its epoch.
  int64_t rows() const;             ///< Rows allocated: Partition::rows_per_rank().
  int64_t count() const;            ///< Rows with a sample.
  int64_t global_count() const;     ///< Samples of all ranks in this batch.
  uint64_t first_position() const;  ///< Row i has position first_position() + i in the epoch.
  Extent extent() const;            ///< The extent of one rendered sample.
  Layout layout() const;
  std::span<const std::byte> pixels() const;  ///< f32 rows x C x H x W, or u8 rows x H x W x C.
  std::span<const int64_t> labels() const;
  std::span<const uint64_t> ids() const;
  std::span<const float> weights() const;  ///< 1, or 0 for padding and substituted rows.
  /// The labels of the partners that were mixed into the rows (mixup, cutmix). Empty without such a transform, as is
  /// mix_weights().
  std::span<const int64_t> second_labels() const;
  std::span<const float> mix_weights() const;  ///< The weight of the row's own label; 1 where nothing was mixed in.

  /// The same arrays, to write into. The slot belongs to this batch alone until it goes back, and the loader then
  /// writes all of it anew, so that a change made here reaches no other batch.
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

/// Sums over all workers since construction. The stages of a sample are read (find it in the epoch, map it, check its
/// CRC), plan, decode and render.
///
/// A clock call costs about 25 ns and a small sample takes 1 us, so that not every sample is timed. `read` is timed
/// over up to 64 samples at once. The other stages are timed for one sample in 17 while a sample takes less than 20 us,
/// otherwise for every sample. `count` is the number of samples made; total times are that number times the mean of the
/// timed samples.
struct LoaderStatistics {
  struct StageTime {
    uint64_t count = 0;
    double total_ms = 0;
    double p99_us = 0;  // from a histogram on a logarithmic scale: within 10 %
    double mean_us() const { return count == 0 ? 0 : total_ms * 1e3 / static_cast<double>(count); }
  };
  /// One worker; with workers 0, the thread that calls next().
  struct Worker {
    double read_ms = 0, plan_ms = 0, decode_ms = 0, render_ms = 0;
    double busy_ms = 0;          // wall-clock time of making rows
    double idle_ms = 0;          // the rest of the wall-clock time since construction
    double cpu_ms = 0;           // processor time of its thread; with workers 0, of making rows only
    double queued_ms = 0;        // it could run and had no core; with workers 0, estimated for making rows only
    double storage_ms = 0;       // part of busy_ms: it neither ran nor queued, but waited for pages of the shards
    uint64_t major_faults = 0;   // pages that it waited for; 0 for all workers: storage_ms is 0 too
    uint64_t storage_bytes = 0;  // bytes read for it from block devices; 0 on FUSE and network file systems
  };
  StageTime read, decode, plan, render;  // per sample
  StageTime wait;                        // per call of next(): how long the consumer waited
  uint64_t batch_count = 0;
  uint64_t ready_count = 0;  // batches that were ready when next() was called
  uint64_t substituted_count = 0;
  uint64_t sample_bytes = 0;    // stored bytes of the samples made
  std::vector<Worker> workers;  // one entry per worker

  /// Computes every worker's storage_ms. Loader::statistics() has called it already. While a worker makes rows, the
  /// only thing that it sleeps for is a page that is not in memory. A page fault of any worker shows that there was
  /// such a page; another worker may have waited for the same page without a fault of its own.
  void find_storage_waits();
  /// The mean time for which a sample waited for the storage. It is part of the other stages, mostly of read and
  /// decode. It has no histogram, so that p99_us is 0.
  StageTime storage() const;
};

/// Determinism: the bytes of batch k of epoch e depend on (data set, pipeline, layout, dct_scale, on_corrupt, seed,
/// shuffle, tail, batch size, e, k) and, for which rows are this rank's, on rank and world size. They depend on nothing
/// else: not on workers, prefetch or timing.
///
/// Memory: prefetch + 2 slots, one allocation each, made by the constructor and then reused for all epochs. Batch k,
/// counted over epochs, is always in slot k mod (prefetch + 2). The two batches that were taken last may be held
/// without slowing the loader down; next() says what a batch does that is held longer. A loader that gives its batches
/// away has `prefetch` slots and as much memory more as the batches that are held; of what comes back it keeps up to
/// prefetch + 2 blocks.
///
/// Errors: the constructor throws config_error, and device_error when the system does not give the memory or the
/// threads. What a worker throws is rethrown by the next() that would have returned that batch, naming shard, sample id
/// and byte offset; the following next() goes on with the batch after it. When several rows of a batch fail, the error
/// is that of the lowest row. With OnCorrupt::kSubstitute a corrupt sample does not throw: its row is zeroed and gets
/// weight 0. A shard that is cut short while it is read, or a disk error, is an io_error in either case. When the cut
/// hit no page that was read, the first next() after the last batch throws it, and the following one ends the epoch.
///
/// Rank-local shuffling: rank r opens only the shards r, r + world size, ..., and positions count through rank 0's
/// samples, then rank 1's, and so on.
///
/// Mixing: mixup and cutmix mix the rows of the global batch, whatever the ranks; with rank-local shuffling they mix
/// those of the rank. A partner is read, decoded and rendered for the row that it is mixed into, so that a sample costs
/// twice as much, and the statistics count it twice.
///
/// Thread-safety: start_epoch() and next() are for one consumer thread.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, LoaderOptions options);
  ~Loader();  ///< Waits for the chunks in work and drops the rest. Allowed at any moment.

  /// After this call, next() returns batch `first_batch` of `epoch`. When the loader is there already (at the epoch
  /// after the one that just ended), the batches that were made ahead are used; otherwise they are dropped.
  void start_epoch(int64_t epoch, int64_t first_batch = 0);

  /// Blocks until the batch is ready, without spinning. Returns nothing at the end of the epoch. Requires
  /// start_epoch().
  ///
  /// A held batch stops the loader when the turn comes round to its slot, even if other slots are free. With batch k
  /// held (counted over epochs), batches up to k + prefetch + 1 are made and returned as usual. Batch k + prefetch + 2
  /// has the same slot: neither it nor any later batch is begun before batch k is released, and the next() that would
  /// return it waits for that. One consumer thread that still holds batch k would wait there for ever, so release batch
  /// k before that call, or on another thread. After a start_epoch() elsewhere, the same holds for the first batch
  /// whose number equals k modulo prefetch + 2. None of this holds for a loader that gives its batches away.
  std::optional<Batch> next();

  int64_t batches_per_epoch() const;   ///< The same at every rank: the steps per epoch.
  uint64_t samples_per_epoch() const;  ///< Samples of this rank, without padding.
  Extent extent() const;               ///< The extent of one rendered sample.
  const LoaderOptions& options() const;
  size_t slot_bytes() const;            ///< Bytes of all slots together, and of batches that were given away.
  LoaderStatistics statistics() const;  ///< May be called on any thread.

 private:
  friend class Batch;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
