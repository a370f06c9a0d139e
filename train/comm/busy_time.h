// BusyTime: how long one or more of several things that overlap were under way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

#include "core/mutex.h"

namespace penstock::detail {

/// The union of intervals, whatever the order in which they are told. Thread-safety: any thread.
class BusyTime {
 public:
  /// Adds [begin_ns, end_ns) and gives how much of it no earlier interval has covered.
  int64_t add(int64_t begin_ns, int64_t end_ns) {
    const MutexLock lock(mutex_);
    int64_t fresh_ns = std::max<int64_t>(end_ns - begin_ns, 0), from_ns = begin_ns, to_ns = std::max(begin_ns, end_ns);
    auto covered = covered_.upper_bound(begin_ns);
    if (covered != covered_.begin() && std::prev(covered)->second >= begin_ns) --covered;
    while (covered != covered_.end() && covered->first <= to_ns) {
      fresh_ns -= std::max<int64_t>(std::min(end_ns, covered->second) - std::max(begin_ns, covered->first), 0);
      from_ns = std::min(from_ns, covered->first);
      to_ns = std::max(to_ns, covered->second);
      covered = covered_.erase(covered);
    }
    covered_.emplace(from_ns, to_ns);
    if (covered_.size() > kMost) covered_.erase(covered_.begin());
    return fresh_ns;
  }

 private:
  static constexpr size_t kMost = 64;  // what began before these has ended long ago

  Mutex mutex_;
  std::map<int64_t, int64_t> covered_ PENSTOCK_GUARDED_BY(mutex_);  // begin and end; they do not touch
};

}  // namespace penstock::detail
