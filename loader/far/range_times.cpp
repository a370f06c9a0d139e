// RangeTimes: the last ranges, and four sums.
#include "loader/far/range_times.h"

#include <algorithm>
#include <vector>

namespace penstock::detail {
namespace {

constexpr size_t kMostRecent = 256, kLeastAlike = 8;
constexpr double kMedians = 3, kPercentiles = 1.5;
constexpr int64_t kSoonest_ns = 10'000'000;  // what a busy machine delays a range by is not worth a second request
constexpr uint64_t kRangesPerSecondAsk = 20;

}  // namespace

void RangeTimes::add(uint64_t byte_count, int64_t took_ns) {
  const MutexLock lock(mutex_);
  ++range_count_;
  range_bytes_ += byte_count;
  recent_.push_back({byte_count, took_ns});
  if (recent_.size() > kMostRecent) recent_.pop_front();
}

std::optional<int64_t> RangeTimes::late_after_ns(uint64_t byte_count) const {
  std::vector<int64_t> alike_ns;
  {
    const MutexLock lock(mutex_);
    for (const Range& range : recent_)
      if (range.byte_count >= byte_count / 2 && range.byte_count / 2 <= byte_count) alike_ns.push_back(range.took_ns);
  }
  if (alike_ns.size() < kLeastAlike) return {};
  std::sort(alike_ns.begin(), alike_ns.end());
  const auto median_ns = static_cast<double>(alike_ns[alike_ns.size() / 2]);
  const auto p95_ns = static_cast<double>(alike_ns[alike_ns.size() * 95 / 100]);
  return std::max(kSoonest_ns, static_cast<int64_t>(std::min(kMedians * median_ns, kPercentiles * p95_ns)));
}

bool RangeTimes::reserve(uint64_t byte_count) {
  const MutexLock lock(mutex_);
  if ((second_count_ + 1) * kRangesPerSecondAsk > range_count_) return false;
  if ((second_bytes_ + byte_count) * kRangesPerSecondAsk > range_bytes_) return false;
  ++second_count_;
  second_bytes_ += byte_count;
  return true;
}

void RangeTimes::settle(uint64_t reserved_bytes, uint64_t twice_bytes) {
  const MutexLock lock(mutex_);
  second_bytes_ += twice_bytes;
  second_bytes_ -= reserved_bytes;
}

RangeTimes& range_times() {
  static auto& times = *new RangeTimes;  // never destroyed: the last threads of a program may still fetch
  return times;
}

}  // namespace penstock::detail
