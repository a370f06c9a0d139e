// CorruptRows: which rows of a loader were of corrupt samples, and quarantine.jsonl, the record of these samples.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>

#include "core/mutex.h"
#include "loader/shards/dataset.h"

namespace penstock::detail {

/// Which samples are corrupt, and which rows of which batches had one, are facts that do not depend on when or by whom
/// they are found; so they are kept as sets.
///
/// Cost: a load per batch where nothing is corrupt. Thread-safety: all functions may be called by several threads.
class CorruptRows {
 public:
  /// `quarantine`: a file that gets a line for each corrupt sample, which is appended; empty: none.
  explicit CorruptRows(std::filesystem::path quarantine) : quarantine_(std::move(quarantine)) {}

  /// Writes the sample's line, unless the file has it: split, id, index, label, path and error as JSON. Throws
  /// io_error.
  void add_sample(const Dataset& dataset, uint64_t index, const std::string& error);
  void add_row(int64_t epoch, int64_t batch, int64_t row);
  /// The rows of this batch; those of batches before it are forgotten.
  int64_t take(int64_t epoch, int64_t batch);

 private:
  std::filesystem::path quarantine_;
  Mutex mutex_;
  std::set<uint64_t> samples_ PENSTOCK_GUARDED_BY(mutex_);  // indices
  std::atomic<bool> has_rows_{false};
  std::set<std::tuple<int64_t, int64_t, int64_t>> rows_ PENSTOCK_GUARDED_BY(mutex_);  // epoch, batch, row
};

}  // namespace penstock::detail
