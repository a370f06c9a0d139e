// Far plan: what --link and --cache-limit make of the rates that shardprep plan has measured.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "loader/bottleneck/far_rate.h"
#include "loader/pack/storage_plan.h"

namespace penstock {

/// The flags as they were typed; "": not given.
struct FarFlags {
  std::string link, cache_limit, shuffle;
  std::optional<int> shards;
};
void add_far_flags(CLI::App& command, FarFlags& flags);

/// One form over the link, with the number of workers that is the best in later epochs. Rates are of one node.
struct FarForm {
  double shard_bytes = 0;
  bool fits = true;          ///< The cache has room for what the order uses at a time; otherwise there are no rates.
  LinkLoad first, later;     ///< Equal without a cache.
  FarRate first_rate, rate;  ///< `rate` is that of later epochs.
};

class FarPlan {
 public:
  /// Checks the flags. `set` has what they do not say; its shard count is that of --shards, where that is given.
  /// Throws config_error.
  FarPlan(const FarFlags& flags, FarSet set);

  bool has_link() const { return link_.bytes_per_second > 0; }
  bool has_cache() const { return cache_bytes_ > 0; }
  int shard_count() const { return set_.shard_count; }
  /// Puts the rates over the link in the place of those in memory. Requires has_link().
  std::vector<FarForm> over_link(std::vector<StorageForm>& forms) const;
  /// The table for people. Requires has_link().
  std::string text(const std::vector<StorageForm>& forms, const std::vector<FarForm>& far) const;

 private:
  FarForm over_link(StorageForm& form) const;

  LinkSpeed link_;
  std::string link_text_;
  uint64_t cache_bytes_ = 0;
  FarSet set_;
};

}  // namespace penstock
