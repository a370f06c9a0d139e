// SharedLink: the link of this machine, as all processes that share a cache see it.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::detail {

/// What came over the link and in which time, and until when the bytes of an emulated one are given away. Lies in
/// memory that processes share, zeros at first. A process that is killed while bytes come leaves its flow behind, until
/// somebody else has its number. Thread-safety: any thread of any process.
class SharedLink {
 public:
  static constexpr int kMostFlows = 64;

  /// Bytes of one request are coming; `number` is one that nobody else has meanwhile, below kMostFlows.
  void begin_flow(int number);
  void end_flow(int number);
  /// What somebody who has ended may have left with this number does not count.
  void forget_flow(int number);
  void count(uint64_t byte_count) { byte_count_.fetch_add(byte_count, std::memory_order_relaxed); }

  uint64_t byte_count() const { return byte_count_.load(std::memory_order_relaxed); }
  double flow_ms() const;  ///< Time in which bytes of one request or more were coming.

  /// The time at which so many bytes have come over a link of this rate, after all that were asked for before. The link
  /// stands still while it has nothing to bring: it does not begin with these bytes before `ready_ns`. A thread that
  /// comes late, by up to 5 ms, does not lose what the link could have brought since.
  int64_t reserve(uint64_t byte_count, double bytes_per_second, int64_t ready_ns);

 private:
  std::atomic<uint64_t> flowing_{0}, byte_count_{0};  // flowing_: one bit per number
  std::atomic<int64_t> begin_ns_{0}, flow_ns_{0};     // begin_ns_: since when a bit of flowing_ is set
  std::atomic<int64_t> free_ns_{0};
};

/// The one that processes share, from share_link() on; before that one of this process alone.
SharedLink& shared_link();
/// `link` must live as long as the process. To be called once.
void share_link(SharedLink& link);

/// What came over the shared link since share_link(); zeros before.
struct SharedSums {
  uint64_t byte_count = 0;
  double flow_ms = 0;
};
SharedSums shared_sums();

}  // namespace penstock::detail
