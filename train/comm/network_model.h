// Link: when messages would have arrived over a network of a given delay and rate. Pure arithmetic, without LibTorch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace penstock {

/// A network into which each rank has one link.
struct NetworkModel {
  int64_t delay_ns = 0;
  double bytes_per_second = 0;
  std::string text = {};  ///< As the user typed it: "25us,10GB/s".
};

namespace detail {

/// What a rank sends in a collective around a ring, where each rank talks to the next one (Patarasuk and Yuan 2009,
/// "Bandwidth optimal all-reduce algorithms for clusters of workstations", sec. 3): the bytes, and how many delays
/// follow one another.
struct RingShare {
  int64_t bytes = 0, delays = 0;
};
inline RingShare all_reduce_share(int64_t bytes, int ranks) {
  return {2 * bytes * (ranks - 1) / ranks, 2 * (ranks - 1)};
}
/// A rank's share of a reduce-scatter or an all-gather; `bytes` are those of all ranks together.
inline RingShare gather_share(int64_t bytes, int ranks) { return {bytes * (ranks - 1) / ranks, ranks - 1}; }
inline RingShare broadcast_share(int64_t bytes, int ranks) { return {bytes, ranks - 1}; }

/// One rank's way into the network. Messages leave one after the other, each for as long as its bytes take; the delay
/// follows, and holds up no other message.
///
///     time ->   link      | message 1 | message 2 |
///               arrival               '- delay -' 1
///                                                 '- delay -' 2
class Link {
 public:
  explicit Link(const NetworkModel& net) : net_(net) {}

  struct Times {
    int64_t sent_ns, due_ns;  // the last byte has left, and has arrived
  };
  /// What is sent at `now_ns`.
  Times send(int64_t now_ns, const RingShare& share) {
    const double bytes_ns = static_cast<double>(share.bytes) * 1e9 / net_.bytes_per_second;
    free_ns_ = std::max(now_ns, free_ns_) + static_cast<int64_t>(bytes_ns);
    return {free_ns_, free_ns_ + share.delays * net_.delay_ns};
  }

 private:
  NetworkModel net_;
  int64_t free_ns_ = 0;
};

}  // namespace detail
}  // namespace penstock
