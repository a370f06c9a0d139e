// LoaderOptions: what a loader delivers, to which rank, and with how many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "augment/render.h"
#include "loader/codecs/codec.h"
#include "loader/order/partition.h"
#include "loader/order/shuffle.h"
#include "loader/shards/dataset.h"

namespace penstock {

/// What a corrupt sample does.
enum class OnCorrupt {
  kFail,  ///< Its batch is an error.
  kMask,  ///< Its row has zeroed pixels and weight 0.
  /// Another sample of its class has its row: the first of 8 candidates that is not corrupt (Substitutes). If all are,
  /// its row is masked.
  kSubstitute,
};

/// When JPEGs are decoded at the smallest DCT scale at which every output pixel still covers a decoded pixel. That
/// changes the pixels, and with them the digest; docs/TRANSFORMS.md says how much.
enum class DctScale {
  kAuto,  ///< Where the transforms draw at random, as in training. An evaluation has the pixels of the whole picture.
  kAlways,
  kOff,
};

/// Whether the shards that come next are read ahead, and those that were used are dropped from memory. Only with
/// Shuffle::shards(), where few are in use at a time.
enum class ReadAheadChoice {
  kAuto,  ///< Where the data set has more bytes than there is memory (available_memory()).
  kOn,    ///< An error where the order uses all shards at once.
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
  /// Which samples an epoch has, and how often: specs of a subset (loader/samplers/subset.h), a file of ids that are
  /// left out, and the spec of a sampler (loader/samplers). Empty: all samples, once. Not with rank-local shuffling; no
  /// sampler with Shuffle::shards().
  std::string subset = {}, exclude_ids = {}, sampler = {};
  /// For the sampler `weighted`: a number for every sample of the data set, in the order of their indices. Shared, so
  /// that copies of the options cost nothing; null: none.
  std::shared_ptr<const std::vector<double>> weights = {};
  uint64_t seed = 0;
  int64_t epoch_count = -1;  ///< Batches of this epoch and later ones are not made ahead; -1: no such limit.
  Layout layout = Layout::kF32Nchw;
  OnCorrupt on_corrupt = OnCorrupt::kFail;
  /// A file that gets a line for each corrupt sample that is met, unless it is an error; lines are appended, and
  /// nothing ever reads them. Empty: none.
  std::filesystem::path quarantine = {};
  /// next() throws corrupt_error where more than this share of the rows that were delivered, of 1,000 or more, are of
  /// corrupt samples. 1: never.
  double most_corrupt = 0.01;
  DecodePath decode = DecodePath::kAuto;  ///< How JPEGs are decoded; every path gives the same bytes.
  DctScale dct_scale = DctScale::kAuto;
  ReadAheadChoice read_ahead = ReadAheadChoice::kAuto;
  /// Lists of transforms besides the loader's own: each gives a column `view1`, `view2`, ... with the pixels of the
  /// same samples, and random numbers of its own. None of them may mix rows.
  std::vector<std::string> views = {};
  /// A SizeSchedule (augment/size_schedule.h) such as `0:128,6:160`: the sizes of pictures by epoch, in place of the
  /// one that the transforms state. Empty: all epochs have that one.
  std::string size_schedule = {};
  std::string columns = {};      ///< Specs of column makers (loader/rows/column.h), such as `mean,angle(unit=degree)`.
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
  /// transforms that mix no rows, and no `columns`. Empty: the loader makes all rows.
  std::function<bool(uint64_t index)> leaves_out = {};
};

/// The shards that Dataset::open() has to open for a loader with these options: with rank-local shuffling only the
/// rank's own shards, otherwise all.
inline RankShards needed_shards(const LoaderOptions& options) {
  if (options.shuffle != Shuffle::kRankLocal) return {};
  return {options.rank, options.world_size};
}

}  // namespace penstock
