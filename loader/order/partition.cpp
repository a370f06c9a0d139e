// Partition: the arithmetic of global batches, and of ranks that have their own shards.
#include "loader/order/partition.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

int64_t steps_for(uint64_t size, int64_t rows, Tail tail) {
  const auto divisor = static_cast<uint64_t>(rows);
  const uint64_t full = size / divisor;
  return static_cast<int64_t>(tail == Tail::kPad && size % divisor != 0 ? full + 1 : full);
}

int64_t rows_for_each(int64_t rows, int ranks) { return rows / ranks + (rows % ranks != 0 ? 1 : 0); }

/// The number of samples, at most `rows`, that are left for a step which begins after `taken` of `size` samples.
int64_t left_for(uint64_t size, uint64_t taken, int64_t rows) {
  return taken < size ? static_cast<int64_t>(std::min(size - taken, static_cast<uint64_t>(rows))) : 0;
}

}  // namespace

Partition::Partition(int64_t batch_size, int rank, int world_size)
    : batch_size_(batch_size), rank_(rank), world_size_(world_size) {
  if (world_size < 1) throw config_error(concat("partition: world size is ", world_size, "; expected 1 or more"));
  if (rank < 0 || rank >= world_size)
    throw config_error(concat("partition: rank is ", rank, "; expected 0 to ", world_size - 1));
  if (batch_size < world_size) {
    throw config_error(concat("partition: batch size is ", batch_size, "; expected ", world_size,
                              " or more, one sample for each rank"));
  }
  rows_per_rank_ = rows_for_each(batch_size, world_size);
}

Partition::Partition(uint64_t size, int64_t batch_size, int rank, int world_size, Tail tail, ShortBatch short_batch)
    : Partition(batch_size, rank, world_size) {
  size_ = size;
  short_batch_ = short_batch;
  batch_count_ = steps_for(size, batch_size, tail);
  if (short_batch == ShortBatch::kEvenly) keep_rows(rows_for_each(left_for(size, 0, batch_size), world_size));
}

Partition Partition::rank_local(std::vector<uint64_t> rank_sizes, int64_t batch_size, int rank, Tail tail) {
  Partition partition(batch_size, rank, static_cast<int>(rank_sizes.size()));
  for (int other = 0; other < partition.world_size_; ++other) {
    const int64_t steps = steps_for(rank_sizes[other], partition.row_count(other), tail);
    if (other == 0) {
      partition.batch_count_ = steps;
    } else if (tail == Tail::kPad) {
      partition.batch_count_ = std::max(partition.batch_count_, steps);
    } else {
      partition.batch_count_ = std::min(partition.batch_count_, steps);
    }
  }
  partition.size_ = std::accumulate(rank_sizes.begin(), rank_sizes.end(), uint64_t{0});
  partition.keep_rows(left_for(*std::max_element(rank_sizes.begin(), rank_sizes.end()), 0, partition.rows_per_rank_));
  partition.rank_sizes_ = std::move(rank_sizes);
  return partition;
}

int64_t Partition::first_row(int rank, int64_t rows) const {  // rank * rows / W, without overflow
  return rank * (rows / world_size_) + rank * (rows % world_size_) / world_size_;
}

/// One at least, for the memory of a batch that never comes.
void Partition::keep_rows(int64_t most) { rows_per_rank_ = std::clamp<int64_t>(most, 1, rows_per_rank_); }

uint64_t Partition::sample_count() const {
  if (batch_count_ == 0) return 0;
  if (!rank_sizes_.empty())  // a rank may have taken all of its samples before the last step
    return std::min(rank_sizes_[rank_], static_cast<uint64_t>(batch_count_) * static_cast<uint64_t>(row_count(rank_)));
  const uint64_t before_last = static_cast<uint64_t>(batch_count_ - 1) * static_cast<uint64_t>(row_count(rank_));
  return before_last + static_cast<uint64_t>(rows(batch_count_ - 1).count);
}

Partition::Rows Partition::rows(int64_t batch) const {
  const auto step = static_cast<uint64_t>(batch);
  Rows rows;
  if (rank_sizes_.empty()) {
    const uint64_t before = step * static_cast<uint64_t>(batch_size_);
    rows.global_count = left_for(size_, before, batch_size_);
    const int64_t divided = short_batch_ == ShortBatch::kEvenly ? rows.global_count : batch_size_;
    rows.first_row = first_row(rank_, divided);
    rows.first_position = before + static_cast<uint64_t>(rows.first_row);
    rows.count =
        std::clamp<int64_t>(rows.global_count - rows.first_row, 0, first_row(rank_ + 1, divided) - rows.first_row);
    return rows;
  }
  for (int rank = 0; rank < world_size_; ++rank) {
    const uint64_t taken = step * static_cast<uint64_t>(row_count(rank));
    const int64_t count = left_for(rank_sizes_[rank], taken, row_count(rank));
    rows.global_count += count;
    if (rank < rank_) rows.first_position += rank_sizes_[rank];
    if (rank == rank_) {
      rows.count = count;
      rows.first_position += taken;
    }
  }
  return rows;
}

}  // namespace penstock
