// Rows whose samples hold their shards: how many at a time, and when they let go.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/rows/loader_options.h"
#include "loader/rows/mender.h"
#include "loader/shards/dataset.h"

namespace penstock::detail {

/// How many rows a worker may look up together, at most `most`: all of them need their shards at the same time. Throws
/// config_error where the cache of far shards has no room for one row per worker, in a mix with its partner, and a
/// shard that is on its way.
int64_t rows_held_together(const Dataset& dataset, const LoaderOptions& options, bool mixes, int64_t most);

/// Lets go of the samples that a worker has looked up, where they are held: when it is told to, and at its end.
class ReleasedRows {
 public:
  ReleasedRows(std::vector<FoundRow>& rows, std::vector<FoundRow>& partners, bool are_held)
      : rows_(rows), partners_(partners), are_held_(are_held) {}
  ~ReleasedRows() { release(); }
  ReleasedRows(const ReleasedRows&) = delete;
  ReleasedRows& operator=(const ReleasedRows&) = delete;
  void release() const;

 private:
  std::vector<FoundRow>&rows_, &partners_;
  const bool are_held_;
};

}  // namespace penstock::detail
