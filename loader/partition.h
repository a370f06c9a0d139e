// Partition: which positions of an epoch stand in which row of which rank's batch; what happens to the tail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

enum class Tail { kPad, kDrop };

/// The positions 0 .. size-1 of an epoch, cut into global batches of `batch_size`, each cut over `world_size` ranks.
///
/// Global batch k holds positions [k*B, min((k+1)*B, size)). Rank r's part is the contiguous rows [r*B/W, (r+1)*B/W)
/// (rounded down) of it; rows_per_rank() = ceil(B/W) rows are allocated at every rank and step, and the ones without a
/// sample have weight 0. kPad: ceil(size/B) batches, the last one filled up with weight-0 rows. kDrop: floor(size/B).
///
/// rank_local() deals whole shards to ranks instead: rank r has rank_sizes[r] samples of its own, which stand at the
/// positions behind those of the ranks before it, and takes as many of them a step as it takes rows of a global batch.
/// Steps are equal over ranks although samples are not. kPad: as many as the rank that needs most; a rank that is
/// through has weight-0 rows. kDrop: as many as the rank that has least can fill.
///
/// Errors: config_error for a batch smaller than the world, a rank outside of it.
/// Thread-safety: a value.
class Partition {
 public:
  Partition(uint64_t size, int64_t batch_size, int rank, int world_size, Tail tail);
  static Partition rank_local(std::vector<uint64_t> rank_sizes, int64_t batch_size, int rank, Tail tail);

  int64_t batch_count() const { return batch_count_; }
  int64_t rows_per_rank() const { return rows_per_rank_; }
  uint64_t sample_count() const;  ///< Of this rank in an epoch: the sum of rows().count.

  struct Rows {
    uint64_t first_position = 0;
    int64_t first_row = 0;     // of the global batch; 0 with rank_local()
    int64_t count = 0;         // rows with a sample; they come first
    int64_t global_count = 0;  // of all ranks in this batch: what loss and gradients are divided by
  };
  Rows rows(int64_t batch) const;  ///< Requires 0 <= batch < batch_count().

 private:
  Partition(int64_t batch_size, int rank, int world_size);
  int64_t first_row(int rank) const;  // of a global batch
  int64_t row_count(int rank) const { return first_row(rank + 1) - first_row(rank); }

  uint64_t size_ = 0;
  std::vector<uint64_t> rank_sizes_;  // rank_local() alone
  int64_t batch_size_;
  int rank_, world_size_;
  int64_t batch_count_ = 0, rows_per_rank_;
};

}  // namespace penstock
