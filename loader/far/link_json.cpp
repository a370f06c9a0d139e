// link_json(): one key per count.
#include "loader/far/link_json.h"

#include <nlohmann/json.hpp>

namespace penstock {

std::string link_json(const LinkStats& link) {
  const nlohmann::ordered_json counts{{"emulated", link.is_emulated},          {"fetched_bytes", link.fetched_bytes},
                                      {"over_bytes", link.over_bytes()},       {"bytes_per_second", link.rate()},
                                      {"hit_count", link.hit_count},           {"hit_bytes", link.hit_bytes},
                                      {"miss_count", link.miss_count},         {"miss_bytes", link.miss_bytes},
                                      {"ahead_count", link.ahead_count},       {"ahead_bytes", link.ahead_bytes},
                                      {"eviction_count", link.eviction_count}, {"request_count", link.request_count},
                                      {"stall_count", link.stall_count},       {"stall_ms", link.stall_ms},
                                      {"transfer_ms", link.transfer_ms},       {"retries", link.retries},
                                      {"origin_bytes", link.origin_bytes}};
  return counts.dump();
}

}  // namespace penstock
