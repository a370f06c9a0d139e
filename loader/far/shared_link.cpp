// SharedLink: one bit per flow, and sums.
#include "loader/far/shared_link.h"

#include <algorithm>
#include <cmath>

#include "core/clock.h"

namespace penstock::detail {
namespace {

constexpr int64_t kLate_ns = 5'000'000;

uint64_t bit_of(int number) { return uint64_t{1} << number; }

struct Sharing {
  SharedLink* link;
  SharedSums before;  // share_link(): by other processes
};
std::atomic<Sharing*> g_sharing{nullptr};

}  // namespace

void SharedLink::begin_flow(int number) {
  const int64_t begin_ns = now_ns();
  if (flowing_.fetch_or(bit_of(number)) == 0) begin_ns_ = begin_ns;
}

void SharedLink::end_flow(int number) {
  const int64_t begin_ns = begin_ns_;  // does not change while this flow's bit is set
  if (flowing_.fetch_and(~bit_of(number)) == bit_of(number)) flow_ns_ += now_ns() - begin_ns;
}

void SharedLink::forget_flow(int number) { flowing_.fetch_and(~bit_of(number)); }

double SharedLink::flow_ms() const {
  const double ended_ms = ms_of(flow_ns_.load());
  return flowing_ == 0 ? ended_ms : ended_ms + ms_since(begin_ns_);
}

int64_t SharedLink::reserve(uint64_t byte_count, double bytes_per_second, int64_t ready_ns) {
  const auto takes_ns = static_cast<int64_t>(std::llround(static_cast<double>(byte_count) * 1e9 / bytes_per_second));
  const int64_t earliest_ns = std::max(ready_ns, now_ns() - kLate_ns);
  int64_t free_ns = free_ns_, end_ns = 0;
  do {
    end_ns = std::max(free_ns, earliest_ns) + takes_ns;
  } while (!free_ns_.compare_exchange_weak(free_ns, end_ns));
  return end_ns;
}

SharedLink& shared_link() {
  static SharedLink own;
  const Sharing* const sharing = g_sharing;
  return sharing != nullptr ? *sharing->link : own;
}

void share_link(SharedLink& link) {
  static Sharing sharing{&link, {link.byte_count(), link.flow_ms()}};
  g_sharing = &sharing;
}

SharedSums shared_sums() {
  const Sharing* const sharing = g_sharing;
  if (sharing == nullptr) return {};
  return {sharing->link->byte_count() - sharing->before.byte_count, sharing->link->flow_ms() - sharing->before.flow_ms};
}

}  // namespace penstock::detail
