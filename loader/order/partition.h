// Partition: which position of an epoch stands in which row of which rank's batch, and what happens to the tail.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock {

enum class Tail { kPad, kDrop };

/// How the last batch is divided among ranks where it is short. kEvenly: as a batch of its own size, so that no rank
/// has more than one row more than another. kInPlace: as if it were full, so that row i of every batch is at the same
/// rank; the last ranks then have few rows or none.
enum class ShortBatch { kEvenly, kInPlace };

/// The positions 0 .. size-1 of an epoch, divided into global batches of `batch_size` rows, each of which is divided
/// among `world_size` ranks.
///
/// With B = batch_size and W = world_size, global batch k holds the n = min(B, size - k*B) positions from k*B on. The
/// part of rank r is its contiguous rows [r*n/W, (r+1)*n/W), both bounds rounded down; with ShortBatch::kInPlace B
/// takes the place of n, and rows from n on have no sample. kPad gives ceil(size/B) batches, kDrop floor(size/B).
/// Every rank allocates rows_per_rank() rows for every step, which is the most that any rank has in any step: ceil(B/W)
/// where there is a full batch. Rows without a sample have weight 0.
///
/// rank_local() gives whole shards to ranks instead. Rank r has rank_sizes[r] samples of its own, whose positions come
/// after those of the ranks before it. Per step it takes as many of them as it would take rows of a global batch. All
/// ranks make the same number of steps although they have different numbers of samples. kPad: as many steps as the rank
/// that needs most; a rank whose samples are used up gets rows of weight 0. kDrop: as many steps as the rank with the
/// fewest samples can fill.
///
/// Errors: config_error for a batch size below the world size, or a rank outside of the world.
/// Thread-safety: a value; const calls may run at the same time.
class Partition {
 public:
  Partition(uint64_t size, int64_t batch_size, int rank, int world_size, Tail tail,
            ShortBatch short_batch = ShortBatch::kEvenly);
  static Partition rank_local(std::vector<uint64_t> rank_sizes, int64_t batch_size, int rank, Tail tail);

  int64_t batch_count() const { return batch_count_; }
  int64_t rows_per_rank() const { return rows_per_rank_; }
  uint64_t sample_count() const;  ///< Samples of this rank in an epoch: the sum of rows().count.

  struct Rows {
    uint64_t first_position = 0;
    int64_t first_row = 0;     // in the global batch; 0 with rank_local()
    int64_t count = 0;         // rows that have a sample; they come first
    int64_t global_count = 0;  // samples of all ranks in this batch: loss and gradients are divided by it
  };
  Rows rows(int64_t batch) const;  ///< Requires 0 <= batch < batch_count().

 private:
  Partition(int64_t batch_size, int rank, int world_size);
  void keep_rows(int64_t most);                     // rows that a rank has in a step, at most
  int64_t first_row(int rank, int64_t rows) const;  // in a global batch of this many rows
  int64_t row_count(int rank) const { return first_row(rank + 1, batch_size_) - first_row(rank, batch_size_); }

  uint64_t size_ = 0;
  ShortBatch short_batch_ = ShortBatch::kEvenly;
  std::vector<uint64_t> rank_sizes_;  // one entry per rank; empty without rank_local()
  int64_t batch_size_;
  int rank_, world_size_;
  int64_t batch_count_ = 0, rows_per_rank_;
};

}  // namespace penstock
