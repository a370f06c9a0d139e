// What a loader needs first of a data set that is far away.
#pragma once

#include <cstdint>
#include <functional>

#include "loader/rows/row_maker.h"

namespace penstock::detail {

constexpr int64_t kFirstBatches = 2;

/// Fetches the samples of up to kFirstBatches batches of an epoch, from batch `first` on, before their shards
/// (Dataset::fetch_rows()). Returns at once where nothing is far away.
void fetch_first_batches(const RowMaker& maker, int64_t epoch, int64_t first, const std::function<void()>& on_wait);

}  // namespace penstock::detail
