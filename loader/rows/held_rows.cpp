// Rows whose samples hold their shards.
#include "loader/rows/held_rows.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

int64_t rows_held_together(const Dataset& dataset, const LoaderOptions& options, bool mixes, int64_t most) {
  const uint64_t room = dataset.room_shards();
  if (room == UINT64_MAX) return most;
  const uint64_t held = static_cast<uint64_t>(std::max(options.workers, 1)) * (mixes ? 2 : 1);
  if (room < held + 1) {
    throw config_error(concat("loader: --cache-limit has room for ", room, " shards as large as the largest of ",
                              dataset.folder().string(), "; expected at least ", held + 1, " for ", options.workers,
                              " workers: a higher limit, or fewer workers"));
  }
  // Other ranks and jobs share the room: a worker that waits for a shard must not keep others meanwhile.
  return 1;
}

void ReleasedRows::release() const {
  if (!are_held_) return;
  for (auto* rows : {&rows_, &partners_})
    for (auto& row : *rows) row.sample.hold = {};
}

}  // namespace penstock::detail
