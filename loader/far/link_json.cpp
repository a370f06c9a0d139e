// link_json(): one key per count.
#include "loader/far/link_json.h"

#include <algorithm>
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
                                      {"transfer_ms", link.transfer_ms},       {"machine_bytes", link.machine_bytes},
                                      {"machine_ms", link.machine_ms},         {"retries", link.retries},
                                      {"origin_bytes", link.origin_bytes}};
  return counts.dump();
}

LinkStats link_of_json(const std::string& json) {
  const auto counts = nlohmann::json::parse(json);
  LinkStats link;
  link.is_emulated = counts.at("emulated");
  link.fetched_bytes = counts.at("fetched_bytes");
  const auto over_bytes = counts.at("over_bytes").get<uint64_t>();
  link.ideal_bytes = link.fetched_bytes - std::min(link.fetched_bytes, over_bytes);
  link.hit_count = counts.at("hit_count");
  link.hit_bytes = counts.at("hit_bytes");
  link.miss_count = counts.at("miss_count");
  link.miss_bytes = counts.at("miss_bytes");
  link.ahead_count = counts.at("ahead_count");
  link.ahead_bytes = counts.at("ahead_bytes");
  link.eviction_count = counts.at("eviction_count");
  link.request_count = counts.at("request_count");
  link.stall_count = counts.at("stall_count");
  link.stall_ms = counts.at("stall_ms");
  link.transfer_ms = counts.at("transfer_ms");
  link.machine_bytes = counts.value("machine_bytes", uint64_t{0});  // runs of earlier versions do not have them
  link.machine_ms = counts.value("machine_ms", 0.0);
  link.retries = counts.at("retries");
  link.origin_bytes = counts.at("origin_bytes");
  return link;
}

}  // namespace penstock
