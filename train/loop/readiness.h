// LoaderReadiness: how far a loader was ahead, and what its link gave, between two records.
#pragma once

#include <algorithm>
#include <utility>

#include "loader/batch/loader.h"
#include "train/measure/metrics.h"

namespace penstock {

/// The shares that describe the loader between two records of one kind.
class LoaderReadiness {
 public:
  /// `total_ms` is the time of the steps since the last record. Work that workers do outside of the steps, during an
  /// evaluation, counts as if it were done in the steps.
  void put(const LoaderStatistics& statistics, double total_ms, double steps, Metrics& metrics) {
    const double busy_ms = statistics.all_workers().busy_ms;
    const double available_ms = total_ms * static_cast<double>(statistics.workers.size());
    const auto batches = static_cast<double>(statistics.batch_count - batch_count_);
    if (batches > 0) metrics.ready_share = static_cast<double>(statistics.ready_count - ready_count_) / batches;
    if (available_ms > 0) metrics.loader_idle_share = std::clamp(1 - (busy_ms - busy_ms_) / available_ms, 0.0, 1.0);
    batch_count_ = statistics.batch_count;
    ready_count_ = statistics.ready_count;
    busy_ms_ = busy_ms;
    put_link(statistics.link, steps, metrics);
  }

 private:
  void put_link(const LinkStats& now, double steps, Metrics& metrics) {
    const LinkStats added = since(std::exchange(link_, now), now);
    if (!now.is_used() || steps <= 0) return;
    metrics.link_bytes_per_second = added.rate();
    metrics.link_stall_ms = added.stall_ms / steps;
  }

  uint64_t batch_count_ = 0, ready_count_ = 0;
  double busy_ms_ = 0;
  LinkStats link_;
};

}  // namespace penstock
