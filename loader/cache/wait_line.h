// WaitLine: what a run waits for, for a person at a terminal or for a log.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/mutex.h"

namespace penstock::detail {

/// The shards that threads of this process wait for. On a terminal, after 1 s without a moment in which nobody waited,
/// one line says how far they are, and is rewritten; elsewhere a line is written every 30 s. Thread-safety: any thread.
class WaitLine {
 public:
  explicit WaitLine(bool is_terminal) : is_terminal_(is_terminal) {}

  void begin(const std::string& sum, const std::string& address, uint64_t byte_count);
  void arrived(const std::string& sum, uint64_t done);  ///< So many of its bytes are there.
  void end(const std::string& sum);
  bool is_waited_for(const std::string& sum);  ///< By a thread of this process.

  /// What to write to stderr now, where `fetched_bytes` have come to this process until now; "" mostly. To be called a
  /// few times per second, by one thread.
  std::string tick(int64_t now_ns, uint64_t fetched_bytes, bool is_emulated);
  std::string last_tick();  ///< What removes the line, when no tick follows.

 private:
  struct Shard {
    std::string address;
    uint64_t byte_count = 0, done = 0;
    int waiting_count = 0;  ///< Threads.
  };
  std::string text(double seconds, uint64_t came, bool is_emulated) const PENSTOCK_REQUIRES(mutex_);

  const bool is_terminal_;
  Mutex mutex_;
  std::map<std::string, Shard> shards_ PENSTOCK_GUARDED_BY(mutex_);
  bool is_waiting_ PENSTOCK_GUARDED_BY(mutex_) = false;  ///< At the last tick, as is the next one.
  bool is_shown_ PENSTOCK_GUARDED_BY(mutex_) = false;
  int64_t begin_ns_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  int64_t due_ns_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  uint64_t begin_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::detail
