// LinkStats: what came over the network, what the cache had, and how long the loader waited for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace penstock {

/// Sums of this process over all its loaders, from its start on or since an earlier moment (since()).
struct LinkStats {
  uint64_t hit_count = 0, hit_bytes = 0;      ///< Shards that were whole in the cache when they were needed.
  uint64_t miss_count = 0, miss_bytes = 0;    ///< Shards that were fetched while somebody waited.
  uint64_t ahead_count = 0, ahead_bytes = 0;  ///< Shards that were fetched before anybody waited.
  uint64_t fetched_bytes = 0;                 ///< All bytes that came, also those that were thrown away.
  uint64_t ideal_bytes = 0;     ///< Those of shards and files that this process fetched for the first time.
  uint64_t eviction_count = 0;  ///< Shards that this process removed from the cache to make room.
  uint64_t request_count = 0;   ///< Requests that bytes came for.
  uint64_t stall_count = 0;     ///< Waits of 1 ms or more of a thread for a shard.
  double stall_ms = 0;          ///< Their time, summed over threads.
  double latency_ms = 0;        ///< Time from a request to its first byte, summed over requests.
  double transfer_ms = 0;       ///< Time in which bytes of one request or more were coming.
  uint64_t machine_bytes = 0;   ///< Bytes that came to any process that shares the cache; 0: there is no cache.
  double machine_ms = 0;        ///< Time in which they came.
  std::map<std::string, uint64_t> retries{};       ///< By cause: "503", "429", "timeout", "lost", "slow" ...
  std::map<std::string, uint64_t> origin_bytes{};  ///< One entry per origin: `https://host`, `s3://bucket`.
  bool is_emulated = false;                        ///< Some of it came over a link of --sim-link.

  bool is_used() const { return hit_count + miss_count + fetched_bytes > 0; }
  uint64_t over_bytes() const { return fetched_bytes > ideal_bytes ? fetched_bytes - ideal_bytes : 0; }
  /// Time in which bytes came over the link of this machine.
  double flow_ms() const { return machine_ms > 0 ? machine_ms : transfer_ms; }
  /// Bytes per second of the link of this machine, while bytes came; 0: none came.
  double rate() const {
    const uint64_t bytes = machine_ms > 0 ? machine_bytes : fetched_bytes;
    return flow_ms() > 0 ? static_cast<double>(bytes) * 1e3 / flow_ms() : 0;
  }
};

/// Thread-safety: any thread. Costs a copy of the two tables.
LinkStats link_stats();
/// What was added since `before`.
LinkStats since(const LinkStats& before, LinkStats now);
/// The sums of two.
LinkStats plus(const LinkStats& more, LinkStats sums);

/// One line for people, beginning with `link: ` and ending with ` [emulated]` where it is; "" where nothing was far.
std::string link_text(const LinkStats& stats);

namespace detail {

/// Counting, where the bytes go. Thread-safety: any thread.
void count_hit(uint64_t byte_count);
void count_fetch(const std::string& xxh3, uint64_t byte_count, bool is_ahead);
void count_ideal(uint64_t byte_count);
void count_bytes(const std::string& address, uint64_t byte_count);
void count_retry(const std::string& kind);
void count_eviction();
void count_emulated();
void count_stall(double ms);

/// From the first byte of an answer to its end: bytes are coming. `number` is that of its turn, which makes it a flow
/// of the shared link (shared_link.h), or below 0.
class Flow {
 public:
  explicit Flow(int64_t request_begin_ns, int number = -1);
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  void count(const std::string& address, uint64_t byte_count);

 private:
  int number_;
};

}  // namespace detail
}  // namespace penstock
