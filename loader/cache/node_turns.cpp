// NodeTurns: one locked byte per turn.
#include "loader/cache/node_turns.h"

#include <algorithm>
#include <ctime>

namespace penstock::detail {
namespace {

/// The same in all processes of a machine.
int64_t now_s() { return std::time(nullptr); }

}  // namespace

NodeTurns::NodeTurns(CacheFolder& folder)
    : folder_(folder), table_(*reinterpret_cast<TurnTable*>(folder.shared().data())) {
  static_assert(sizeof(TurnTable) <= CacheFolder::kSharedBytes);
  static_assert(TurnTable::kTurns <= SharedLink::kMostFlows);
}

int NodeTurns::take() {
  const MutexLock lock(mutex_);
  const auto limit = std::min<size_t>(table_.limit_now(), had_.size());
  for (size_t turn = 0; turn < limit; ++turn) {
    if (had_[turn] != Had::kNot || !folder_.lock_shared(turn)) continue;
    had_[turn] = Had::kLocked;
    table_.link.forget_flow(static_cast<int>(turn));
    table_.beat_s[turn] = now_s();
    return static_cast<int>(turn);
  }
  for (size_t turn = 0; turn < limit; ++turn) {
    if (had_[turn] != Had::kNot || now_s() - table_.beat_s[turn] <= kStoppedAfter_s /* of whole seconds */) continue;
    had_[turn] = Had::kBeside;
    return static_cast<int>(turn);
  }
  return kNoTurn;
}

void NodeTurns::give_back(int turn) {
  const MutexLock lock(mutex_);
  Had& had = had_[static_cast<size_t>(turn)];
  if (had == Had::kLocked) {
    table_.beat_s[static_cast<size_t>(turn)] = INT64_MAX;  // what nobody has is not a stopped process's
    folder_.unlock_shared(static_cast<size_t>(turn));
  }
  had = Had::kNot;
}

/// Turns that any process has, and the one that was just given back.
int NodeTurns::busy_count() {
  const MutexLock lock(mutex_);
  int count = 1;
  for (size_t turn = 0; turn < had_.size(); ++turn)
    count += had_[turn] != Had::kNot || folder_.is_locked_by_others(turn) ? 1 : 0;
  return count;
}

void NodeTurns::slow_down() {
  const auto busy = static_cast<uint32_t>(busy_count());
  uint32_t seen = table_.limit;  // 0: nobody has set it
  const auto halved = [&] {
    return std::max(uint32_t{1}, std::min(seen == 0 ? uint32_t{TurnTable::kTurns} : seen, busy) / 2);
  };
  while (!table_.limit.compare_exchange_weak(seen, halved())) {
  }
  table_.success_count = 0;
}

void NodeTurns::succeeded() {
  const uint32_t limit = table_.limit_now();
  if (limit == TurnTable::kTurns || ++table_.success_count < limit) return;
  table_.success_count = 0;
  uint32_t seen = limit;
  table_.limit.compare_exchange_strong(seen, limit + 1);  // another process may have halved it
}

void NodeTurns::note_byte() { table_.byte_s.store(now_s(), std::memory_order_relaxed); }
int64_t NodeTurns::byte_age_s() const { return std::max<int64_t>(0, now_s() - table_.byte_s); }

void NodeTurns::beat() {
  const MutexLock lock(mutex_);
  for (size_t turn = 0; turn < had_.size(); ++turn)
    if (had_[turn] == Had::kLocked) table_.beat_s[turn] = now_s();
}

}  // namespace penstock::detail
