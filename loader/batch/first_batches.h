// What a loader needs first of a data set that is far away.
#pragma once

#include <cstdint>
#include <functional>

#include "loader/rows/row_maker.h"

namespace penstock::detail {

constexpr int64_t kFirstBatches = 2;

/// Fetches the samples of kFirstBatches batches, from `first` on and below `limit`, before their shards
/// (Dataset::fetch_rows()). Both are counted over epochs. Returns at once where nothing is far away.
void fetch_first_batches(const RowMaker& maker, int64_t first, int64_t limit, const std::function<void()>& on_wait);

}  // namespace penstock::detail
