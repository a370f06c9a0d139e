// Partition: which position of an epoch stands in which row of which rank's batch, and what happens to the tail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

enum class Tail { kPad, kDrop };

/// The positions 0 .. size-1 of an epoch, divided into global batches of `batch_size` rows, each of which is divided
/// among `world_size` ranks.
///
/// With B = batch_size and W = world_size, global batch k holds the positions [k*B, min((k+1)*B, size)). The part of
/// rank r is its contiguous rows [r*B/W, (r+1)*B/W), both bounds rounded down. Every rank allocates rows_per_rank() =
/// ceil(B/W) rows for every step, and the rows without a sample have weight 0. kPad gives ceil(size/B) batches, the
/// last of which is filled up with rows of weight 0. kDrop gives floor(size/B) batches.
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
  Partition(uint64_t size, int64_t batch_size, int rank, int world_size, Tail tail);
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
  int64_t first_row(int rank) const;  // in a global batch
  int64_t row_count(int rank) const { return first_row(rank + 1) - first_row(rank); }

  uint64_t size_ = 0;
  std::vector<uint64_t> rank_sizes_;  // one entry per rank; empty without rank_local()
  int64_t batch_size_;
  int rank_, world_size_;
  int64_t batch_count_ = 0, rows_per_rank_;
};

}  // namespace penstock
