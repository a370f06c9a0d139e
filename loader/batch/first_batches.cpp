// The samples of the first batches, by the order of the epoch.
#include "loader/batch/first_batches.h"

#include <algorithm>
#include <vector>

namespace penstock::detail {
namespace {

/// The positions that the rows of a batch are made of: with a mix partners may be rows of any rank.
void add_indices(const RowMaker& maker, const EpochOrder& order, int64_t batch, std::vector<uint64_t>& indices) {
  const auto rows = maker.partition().rows(batch);
  const bool is_mixed = maker.pipeline().batch_mix().kind != BatchMix::Kind::kNone;
  const bool is_whole = is_mixed && !maker.is_rank_local();
  const uint64_t begin = rows.first_position - static_cast<uint64_t>(is_whole ? rows.first_row : 0);
  const auto count = static_cast<uint64_t>(is_whole ? rows.global_count : rows.count);
  for (uint64_t position = begin; position < begin + count; ++position)
    indices.push_back(maker.samples().place_at(order, position).index);
}

}  // namespace

void fetch_first_batches(const RowMaker& maker, int64_t first, int64_t limit, const std::function<void()>& on_wait) {
  if (maker.dataset().room_shards() == UINT64_MAX) return;
  const int64_t count = maker.partition().batch_count();
  std::vector<uint64_t> indices;
  for (int64_t sequence = first; sequence < std::min(first + kFirstBatches, limit); ++sequence)
    add_indices(maker, maker.samples().order_of(sequence / count), sequence % count, indices);
  maker.dataset().fetch_rows(indices, on_wait);
}

}  // namespace penstock::detail
