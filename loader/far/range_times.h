// RangeTimes: how long ranges take to come, and how many of them may be asked for twice.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "core/mutex.h"

namespace penstock::detail {

/// The ranges that have come to this process, and what was asked for a second time ("hedged requests", Dean and
/// Barroso 2013, The Tail at Scale). There they are sent after the 95th percentile of the time. Here after 1.5 times as
/// long, because there is no budget for all of the 5 % beyond it, and after 3 times the median at the latest, which is
/// known after fewer ranges and which slow ones do not move. Thread-safety: any thread.
class RangeTimes {
 public:
  /// A range of `byte_count` bytes came within `took_ns`.
  void add(uint64_t byte_count, int64_t took_ns);
  /// The time after which a range of this size counts as slow, by the last ranges of half to twice its size: the
  /// smaller one of 3 times their median and 1.5 times their 95th percentile, at least 10 ms; none while fewer than 8
  /// are known.
  std::optional<int64_t> late_after_ns(uint64_t byte_count) const;

  /// Whether so many bytes may be asked for a second time now: requests and bytes of second asks stay within 5 % of
  /// those of add(). If so, they are taken from the budget.
  bool reserve(uint64_t byte_count);
  /// Gives back what was reserved, but for the bytes that did come twice.
  void settle(uint64_t reserved_bytes, uint64_t twice_bytes);

 private:
  struct Range {
    uint64_t byte_count;
    int64_t took_ns;
  };
  mutable Mutex mutex_;
  std::deque<Range> recent_ PENSTOCK_GUARDED_BY(mutex_);
  uint64_t range_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  uint64_t range_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  uint64_t second_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  uint64_t second_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

/// That of this process.
RangeTimes& range_times();

}  // namespace penstock::detail
