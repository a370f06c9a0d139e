// Loader: batches, in order, built ahead of time by many workers.
//
// Lives here: the loader: ring of slots, workers, digest.
// Not here: how a row is made (loader/rows), the order (loader/order), and what limits a loop (bottleneck).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "augment/transform.h"
#include "loader/rows/column.h"
#include "loader/rows/loader_options.h"
#include "loader/rows/loader_statistics.h"
#include "loader/rows/sample_order.h"
#include "loader/shards/dataset.h"

namespace penstock {

/// One rank's part of a global batch, in a slot of its loader. The slot goes back to the loader when the Batch is
/// destroyed.
///
/// Rows 0 .. count-1 hold samples. Rows count .. rows-1 are padding, with weight 0, label 0, id ~0 and zeroed pixels. A
/// masked row (OnCorrupt) counts as a sample and keeps its label and id, but has weight 0 and zeroed pixels. In a mix,
/// a row whose partner is corrupt is masked too. Padding rows have second label 0 and mix weight 1, and are no row's
/// partner. In columns of makers padding and masked rows are zero. A substituted row has the label, the id and all else
/// of the other sample.
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
  int64_t corrupt_count() const;    ///< Rows whose sample is corrupt: they are masked or substituted.
  uint64_t first_position() const;  ///< Row i has position first_position() + i in the epoch.
  Extent extent() const;            ///< The extent of one rendered sample.
  Layout layout() const;
  std::span<const std::byte> pixels() const;  ///< f32 rows x C x H x W, or u8 rows x H x W x C.
  std::span<const int64_t> labels() const;
  std::span<const uint64_t> ids() const;
  std::span<const float> weights() const;  ///< 1, or 0 for padding and masked rows.
  /// Indices of the samples, as Dataset::at() takes them; ~0 for padding. They are no column and not part of
  /// the digest: packing again with other shards changes them, and no id.
  std::span<const uint64_t> indices() const;
  /// The labels of the partners that were mixed into the rows (mixup, cutmix). Empty without such a transform, as is
  /// mix_weights().
  std::span<const int64_t> second_labels() const;
  std::span<const float> mix_weights() const;  ///< The weight of the row's own label; 1 where nothing was mixed in.

  /// All arrays, those of above first. They are the same for all batches of a loader, but for the shapes of pictures
  /// that a size schedule changes from one epoch to another.
  const std::vector<Column>& columns() const;
  /// Whether column `number` has pictures: the images, or those of a further view.
  bool is_picture(size_t number) const;
  /// The number of the column of that name in columns(). Throws config_error, which lists the names.
  size_t column_number(const std::string& name) const;
  /// The array of column `number`: rows() x columns()[number].row_bytes() bytes.
  std::span<const std::byte> column(size_t number) const;
  /// The same, to write into. The slot belongs to this batch alone until it goes back, and the loader then writes all
  /// of it anew, so that a change made here reaches no other batch.
  std::span<std::byte> column(size_t number);
  std::span<uint64_t> indices();

 private:
  friend class Loader;
  struct Handle;
  explicit Batch(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

/// Throws corrupt_error `<where>: ...` where more than `most`, a share of 0 to 1, of 1,000 rows or more are of corrupt
/// samples: then the data are at fault, and not a few of their samples.
void check_corrupt_share(const std::string& where, int64_t corrupt_count, int64_t row_count, double most);

/// Determinism: the bytes of batch k of epoch e depend on (data set, subset, sampler, pipeline, size schedule,
/// layout, dct_scale, columns, on_corrupt, seed, shuffle, tail, batch size, e, k) and, for which rows are this rank's,
/// on rank and world size. They depend on nothing else: not on workers, prefetch or timing.
///
/// Memory: prefetch + 2 slots, one allocation each for the largest pictures of a size schedule, made by the constructor
/// and then reused for all epochs. Batch k, counted over epochs, is always in slot k mod (prefetch + 2). The two
/// batches that were taken last may be held without slowing the loader down; next() says what a batch does that is held
/// longer. A loader that gives its batches away has `prefetch` slots and as much memory more as the batches that are
/// held; of what comes back it keeps up to prefetch + 2 blocks.
///
/// Errors: the constructor throws config_error, and device_error when the system does not give the memory or the
/// threads. What a worker throws is rethrown by the next() that would have returned that batch, naming shard, sample id
/// and byte offset; the following next() goes on with the batch after it. When several rows of a batch fail, the error
/// is that of the lowest row. With OnCorrupt::kMask or kSubstitute a corrupt sample does not throw, unless there are
/// too many of them (LoaderOptions::most_corrupt). A shard that is cut short while it is read, or a disk error, is an
/// io_error in either case. When the cut hit no page that was read, the first next() after the last batch throws it,
/// and the following one ends the epoch.
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
  const SampleOrder& order() const;    ///< Which samples the epochs have.
  Extent extent() const;               ///< The extent of one rendered sample; of a size schedule, the largest one.
  /// The transforms of the images of this epoch, in its size.
  const Pipeline& pipeline(int64_t epoch) const;
  const LoaderOptions& options() const;
  std::vector<std::string> warnings() const;  ///< What its user should know, a sentence each.
  size_t slot_bytes() const;                  ///< Bytes of all slots together, and of batches that were given away.
  LoaderStatistics statistics() const;        ///< May be called on any thread.

 private:
  friend class Batch;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
