// Link table: the counts of summary.json as cells.
#include "tools/train/study/link_table.h"

#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

/// "503 4, lost 1", or "-".
std::string retries_text(const LinkStats& link) {
  std::vector<std::string> causes;
  for (const auto& [cause, count] : link.retries) causes.push_back(concat(cause, " ", count));
  return causes.empty() ? "-" : join(causes, ", ");
}

/// "s3://bucket 40.0 MB", or "-".
std::string origins_text(const LinkStats& link) {
  std::vector<std::string> origins;
  for (const auto& [origin, bytes] : link.origin_bytes) origins.push_back(concat(origin, " ", byte_text(bytes)));
  return origins.empty() ? "-" : join(origins, ", ");
}

}  // namespace

Table link_table(const StudyResults& results) {
  Table table{{"row", "fetched from", "MB/s", "not for the first time", "shards in the cache", "waited for", "ahead",
               "evicted", "stalls", "stalls ms", "tried again", "times"},
              {}};
  for (const auto& row : results.rows) {
    if (!row.link) continue;
    const LinkStats& link = *row.link;
    table.rows.push_back({{row_text(row.row), ""},
                          {origins_text(link), ""},
                          {concat(static_cast<uint64_t>(link.rate() * 1e-6 + 0.5)), ""},
                          {byte_text(link.over_bytes()), ""},
                          {grouped(link.hit_count), ""},
                          {grouped(link.miss_count), ""},
                          {grouped(link.ahead_count), ""},
                          {grouped(link.eviction_count), ""},
                          {grouped(link.stall_count), ""},
                          {grouped(static_cast<uint64_t>(link.stall_ms)), ""},
                          {retries_text(link), ""},
                          {link.is_emulated ? "emulated" : "measured", ""}});
  }
  return table;
}

std::vector<std::string> link_table_notes() {
  return {
      "The last repeat of each row, in the process of rank 0. Shards were in the cache when they were needed, waited "
      "for, or fetched ahead; evicted ones made room for others. Stalls are waits of a thread for a shard, and their "
      "time is summed over threads. Tried again: requests by what went wrong before."};
}

}  // namespace penstock
