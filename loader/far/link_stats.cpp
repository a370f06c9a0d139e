// LinkStats: one set of counters per process, under one mutex: it is taken a few thousand times per second at most.
#include "loader/far/link_stats.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/far/shared_link.h"

namespace penstock {
namespace {

struct LinkCounters {
  LinkStats sums;
  std::set<std::string> seen;  // shards that were fetched before, by XXH3
  int flowing_count = 0;       // transfers whose bytes come just now
  int64_t flow_begin_ns = 0;
};

struct GuardedCounters {
  Mutex mutex;
  LinkCounters counters PENSTOCK_GUARDED_BY(mutex);
};

GuardedCounters& guarded_counters() {
  static auto& counters = *new GuardedCounters;  // never destroyed: threads that fetch may outlive main()
  return counters;
}

template <class Change>
void change_sums(const Change& change) {
  auto& guarded = guarded_counters();
  const MutexLock lock(guarded.mutex);
  change(guarded.counters);
}

/// `one` and `sign` times `other`, which is 1 or -1. Counts may wrap on the way.
LinkStats combined(LinkStats one, const LinkStats& other, int sign) {
  constexpr uint64_t LinkStats::*kCounts[] = {
      &LinkStats::hit_count,      &LinkStats::hit_bytes,     &LinkStats::miss_count,    &LinkStats::miss_bytes,
      &LinkStats::ahead_count,    &LinkStats::ahead_bytes,   &LinkStats::fetched_bytes, &LinkStats::ideal_bytes,
      &LinkStats::eviction_count, &LinkStats::request_count, &LinkStats::stall_count,   &LinkStats::machine_bytes};
  constexpr double LinkStats::*kTimes[] = {&LinkStats::stall_ms, &LinkStats::latency_ms, &LinkStats::transfer_ms,
                                           &LinkStats::machine_ms};
  for (const auto count : kCounts) one.*count += static_cast<uint64_t>(sign) * (other.*count);
  for (const auto time : kTimes) one.*time += sign * (other.*time);
  for (const auto table : {&LinkStats::retries, &LinkStats::origin_bytes}) {
    for (const auto& [name, count] : other.*table) (one.*table)[name] += static_cast<uint64_t>(sign) * count;
    std::erase_if(one.*table, [](const auto& entry) { return entry.second == 0; });
  }
  one.is_emulated = one.is_emulated || other.is_emulated;
  return one;
}

/// `s3://bucket` of `s3://bucket/photos/train/shard-00000.safetensors`; `sim` of a path behind --sim-link.
std::string origin_of(const std::string& address) {
  const size_t slashes = address.find("://");
  return slashes == std::string::npos ? address.substr(0, address.find(':'))
                                      : address.substr(0, address.find('/', slashes + 3));
}

}  // namespace

LinkStats link_stats() {
  auto& guarded = guarded_counters();
  const MutexLock lock(guarded.mutex);
  LinkStats now = guarded.counters.sums;
  if (guarded.counters.flowing_count > 0) now.transfer_ms += ms_since(guarded.counters.flow_begin_ns);
  const detail::SharedSums shared = detail::shared_sums();
  now.machine_bytes = shared.byte_count;
  now.machine_ms = shared.flow_ms;
  return now;
}

LinkStats since(const LinkStats& before, LinkStats now) { return combined(std::move(now), before, -1); }

LinkStats plus(const LinkStats& more, LinkStats sums) { return combined(std::move(sums), more, 1); }

std::string link_text(const LinkStats& stats) {
  if (!stats.is_used()) return "";
  std::vector<std::string> origins, retries;
  for (const auto& [origin, bytes] : stats.origin_bytes) origins.push_back(origin);
  for (const auto& [kind, count] : stats.retries) retries.push_back(concat(kind, " ", count));
  std::string text = concat("link: ", byte_text(stats.fetched_bytes), " fetched");
  if (!origins.empty())
    text += concat(" from ", join(origins, ", "), " at ", byte_text(static_cast<uint64_t>(stats.rate())), "/s, ",
                   byte_text(stats.over_bytes()), " of them not for the first time");
  text += concat("; shards: ", stats.hit_count, " in the cache when they were needed, ", stats.miss_count,
                 " waited for, ", stats.eviction_count, " evicted; ", count_text(stats.stall_count, "stall"), " of ",
                 static_cast<uint64_t>(stats.stall_ms), " ms together");
  if (!retries.empty()) text += concat("; tried again: ", join(retries, ", "));
  return stats.is_emulated ? text + " [emulated]" : text;
}

namespace detail {

void count_hit(uint64_t byte_count) {
  change_sums([&](auto& all) {
    ++all.sums.hit_count;
    all.sums.hit_bytes += byte_count;
  });
}

void count_fetch(const std::string& xxh3, uint64_t byte_count, bool is_ahead) {
  change_sums([&](auto& all) {
    ++(is_ahead ? all.sums.ahead_count : all.sums.miss_count);
    (is_ahead ? all.sums.ahead_bytes : all.sums.miss_bytes) += byte_count;
    if (all.seen.insert(xxh3).second) all.sums.ideal_bytes += byte_count;
  });
}

void count_ideal(uint64_t byte_count) {
  change_sums([&](auto& all) { all.sums.ideal_bytes += byte_count; });
}

void count_bytes(const std::string& address, uint64_t byte_count) {
  const std::string origin = origin_of(address);
  change_sums([&](auto& all) {
    all.sums.fetched_bytes += byte_count;
    all.sums.origin_bytes[origin] += byte_count;
  });
}

void count_retry(const std::string& kind) {
  change_sums([&](auto& all) { ++all.sums.retries[kind]; });
}

void count_eviction() {
  change_sums([](auto& all) { ++all.sums.eviction_count; });
}

void count_emulated() {
  change_sums([](auto& all) { all.sums.is_emulated = true; });
}

void count_stall(double ms) {
  change_sums([&](auto& all) {
    ++all.sums.stall_count;
    all.sums.stall_ms += ms;
  });
}

Flow::Flow(int64_t request_begin_ns, int number) : number_(number) {
  const int64_t begin_ns = now_ns();
  change_sums([&](auto& all) {
    ++all.sums.request_count;
    all.sums.latency_ms += ms_of(begin_ns - request_begin_ns);
    if (++all.flowing_count == 1) all.flow_begin_ns = begin_ns;
  });
  if (number_ >= 0) shared_link().begin_flow(number_);
}

void Flow::count(const std::string& address, uint64_t byte_count) {
  count_bytes(address, byte_count);
  if (number_ >= 0) shared_link().count(byte_count);
}

Flow::~Flow() {
  if (number_ >= 0) shared_link().end_flow(number_);
  change_sums([](auto& all) {
    if (--all.flowing_count == 0) all.sums.transfer_ms += ms_since(all.flow_begin_ns);
  });
}

}  // namespace detail
}  // namespace penstock
