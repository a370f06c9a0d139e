// NodeTurns: the limit of requests of all processes that share a cache.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/mutex.h"
#include "loader/cache/folder.h"
#include "loader/far/limiter.h"
#include "loader/far/shared_link.h"

namespace penstock::detail {

/// A process that shows no sign of life for so long counts as stopped.
constexpr int64_t kStoppedAfter_s = 3;

/// In the memory that processes share (CacheFolder::shared()); zeros at first.
struct TurnTable {
  static constexpr int kTurns = 64;
  std::atomic<uint32_t> limit, success_count;       // limit 0: nobody has set it, kTurns
  std::atomic<int64_t> byte_s;                      // when the last byte came to any process
  std::array<std::atomic<int64_t>, kTurns> beat_s;  // when the process that has the turn last lived
  SharedLink link;                                  // its flows have the numbers of their turns
  uint32_t limit_now() const { return limit == 0 ? uint32_t{kTurns} : limit.load(); }
};

/// A turn is a byte of the marker that is locked, so that it ends with its process, however that ends. The limit says
/// how many of them may be had; it halves, from as many as are had, and grows as RequestLimiter's. The turns of a
/// process that has not lived for 4 s, because it was stopped, are had by one request of each other process as well.
/// Thread-safety: any thread.
class NodeTurns final : public SharedTurns {
 public:
  explicit NodeTurns(CacheFolder& folder);  ///< `folder` must outlive it.
  int take() override;
  void give_back(int turn) override;
  void slow_down() override;
  void succeeded() override;
  void note_byte() override;
  int64_t byte_age_s() const override;
  void beat();  ///< This process lives. To be called at least once per second.
  SharedLink& link() { return table_.link; }

 private:
  enum class Had : uint8_t { kNot, kLocked, kBeside };  // by this process
  int busy_count();

  CacheFolder& folder_;
  TurnTable& table_;
  Mutex mutex_;
  std::array<Had, TurnTable::kTurns> had_ PENSTOCK_GUARDED_BY(mutex_){};
};

}  // namespace penstock::detail
