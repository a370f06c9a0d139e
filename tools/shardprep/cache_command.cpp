// shardprep cache: what is kept of far data sets on this machine.
#include <cstdio>
#include <memory>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/cache/contents.h"
#include "tools/cache_flags.h"
#include "tools/cli.h"
#include "tools/shardprep/commands.h"

namespace penstock {
namespace {

void print_all(const std::vector<CachedShard>& shards, const char* what) {
  uint64_t total = 0;
  for (const auto& shard : shards) {
    total += shard.byte_count;
    std::printf("%s  %-7s  %-6s  %s\n", shard.sum.c_str(), shard.is_whole ? "whole" : "partial",
                shard.is_in_use ? "in use" : "", byte_text(shard.byte_count).c_str());
  }
  std::printf("%s: %s%s, %s\n", cache_folder().c_str(), count_text(shards.size(), "shard").c_str(), what,
              byte_text(total).c_str());
}

int run_cache(const std::string& action, const std::string& most) {
  const auto folder = cache_folder();
  if (action == "list") {
    print_all(cached_shards(folder), "");
    return 0;
  }
  if (action == "prune") {
    const uint64_t most_bytes = most == "0" ? 0 : parse_byte_limit("--to", most, 0);
    print_all(prune_cache(folder, most_bytes), " removed");
    return 0;
  }
  const auto removed = verify_cache(folder);
  print_all(removed, " removed");
  if (removed.empty()) return 0;
  throw corrupt_error(concat("cache: ", count_text(removed.size(), "shard"), " had other bytes than its name says; ",
                             "expected a disk without errors; they are fetched again when they are needed"));
}

}  // namespace

Command cache_command(CLI::App& app) {
  auto* command = app.add_subcommand("cache", "list, check or empty the cache of shards from https, s3 and gs");
  auto action = std::make_shared<std::string>(), most = std::make_shared<std::string>("0");
  command
      ->add_option("ACTION", *action,
                   "list: print what is there; verify: read every shard and remove those that are damaged; prune: "
                   "remove what nobody uses, the least recently used first")
      ->required()
      ->check(CLI::IsMember({"list", "verify", "prune"}));
  command->add_option("--to", *most, "with prune: until at most this much is left, as in 10gb")->capture_default_str();
  add_cache_flags(*command);
  return {command, [action, most] { return run_cache(*action, *most); }};
}

}  // namespace penstock
