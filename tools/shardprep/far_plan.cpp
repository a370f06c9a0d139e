// Far plan: flags, rates and the table.
#include "tools/shardprep/far_plan.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/number.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/bottleneck/bottleneck.h"
#include "loader/cache/cache_options.h"

namespace penstock {
namespace {

constexpr int kMostPlannedShards = 1'000'000;
// Workers that are looked at, also with fewer cores: they wait for the link side by side.
constexpr int kLeastWorkersTried = 8;

/// A number alone is MB/s; 0 is no limit.
LinkSpeed planned_link(const std::string& text) {
  if (text.empty() || text == "0") return {};
  const auto megabytes = parse_number<double>(text, std::chars_format::fixed);
  const bool is_rate = megabytes && *megabytes > 0 && std::isfinite(*megabytes);
  return is_rate ? LinkSpeed{0, *megabytes * 1e6} : parse_link_speed("--link:", text);
}

uint64_t planned_cache(const std::string& text) {
  if (text.ends_with('%'))
    throw config_error(
        concat("--cache-limit: is ", in_quotes(text),
               "; expected bytes as in 100gb, 500mb or 123456: the disks of other machines are not known"));
  return text.empty() ? 0 : parse_byte_limit("--cache-limit", text, 0);
}

void check_together(const FarFlags& flags, bool has_link) {
  const char* const link = flags.link.empty() ? "--link" : "a --link above 0";
  const auto demand = [](bool is_met, const char* flag, const char* other) {
    if (!is_met) throw config_error(concat(flag, ": is given without ", other, "; expected both, or neither"));
  };
  demand(flags.cache_limit.empty() || has_link, "--cache-limit", link);
  demand(flags.shuffle.empty() || !flags.cache_limit.empty(), "--shuffle", "--cache-limit");
  demand(!flags.shards || !flags.cache_limit.empty(), "--shards", "--cache-limit");
  if (flags.shards && (*flags.shards < 1 || *flags.shards > kMostPlannedShards))
    throw config_error(
        concat("--shards: is ", *flags.shards, "; expected 1 to ", grouped(static_cast<uint64_t>(kMostPlannedShards))));
}

Shuffle planned_shuffle(const std::string& text) {
  const Shuffle shuffle = text.empty() ? Shuffle::kGlobal : parse_shuffle("--shuffle", text);
  if (shuffle == Shuffle::kGlobal || shuffle.has_window()) return shuffle;
  throw config_error(concat("--shuffle: is ", in_quotes(text), "; expected global or shards(window=V,lanes=C)"));
}

std::string rate_of_all(double images_per_second, int nodes) {
  return grouped(static_cast<uint64_t>(std::llround(images_per_second * nodes)));
}

/// "1,940 (link)", and with a cache what comes per epoch.
std::string cell_text(const FarRate& rate, const LinkLoad& load, const FarSet& set, bool has_bytes) {
  const std::string bytes =
      has_bytes ? concat(", ", byte_text(static_cast<uint64_t>(load.bytes * set.batches()))) : std::string();
  return concat(rate_of_all(rate.images_per_second, set.nodes), " (", name_of(rate.bound), bytes, ")");
}

}  // namespace

void add_far_flags(CLI::App& command, FarFlags& flags) {
  command
      .add_option(
          "--link", flags.link,
          "what each node gets from where the data are, where they are not in its memory: MB/s, or a rate and a "
          "delay per request as in 100MB/s,20ms; 0: no limit")
      ->each([](const std::string& given) {
        if (given.empty()) parse_link_speed("--link:", given);
      })
      ->type_name("RATE[,DELAY]");
  command
      .add_option("--cache-limit", flags.cache_limit,
                  "with --link: the data come from an address, and each node keeps shards in a cache of this size, as "
                  "in 500mb or 100gb; the target is that of epochs after the first")
      ->each([](const std::string& given) {
        if (given.empty()) parse_byte_limit("--cache-limit", given, 0);
      })
      ->type_name("SIZE");
  command.add_option("--shuffle", flags.shuffle, "with --cache-limit: as in train, global (default) or shards(...)");
  command
      .add_option("--shards", flags.shards,
                  "with --cache-limit: as in shardprep pack (default: 8, or those that --data has)")
      ->type_name("UINT");
}

FarPlan::FarPlan(const FarFlags& flags, FarSet set)
    : link_(planned_link(flags.link)),
      link_text_(flags.link),
      cache_bytes_(planned_cache(flags.cache_limit)),
      set_(std::move(set)) {
  check_together(flags, has_link());
  set_.shuffle = planned_shuffle(flags.shuffle);
  if (flags.shards) set_.shard_count = *flags.shards;
  if (set_.shuffle.has_window() && set_.shuffle.lanes > set_.batch_size)
    throw config_error(concat("--shuffle: is ", set_.shuffle.text(), " with a batch size of ", set_.batch_size,
                              "; expected lanes of at most the batch size"));
  set_.shard_count = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(set_.shard_count), set_.image_count));
  if (link_text_.find_first_not_of("0123456789.") == std::string::npos) link_text_ += " MB/s";
}

FarForm FarPlan::over_link(StorageForm& form) const {
  FarSet set = set_;
  set.image_bytes = form.image_bytes;
  FarForm far;
  far.shard_bytes = set.shard_bytes();
  far.first = far.later = load_of_images(set);
  const auto in_memory = std::exchange(form.rates, {});
  if (has_cache()) {
    const auto loads = load_of_shards(set, cache_bytes_);
    far.fits = loads.has_value();
    if (loads) far.first = loads->first, far.later = loads->later;
  }
  const int most = std::max(kLeastWorkersTried, in_memory.back().workers);
  for (int workers = 1; workers <= most; ++workers) {
    const double memory_rate = rate_of(in_memory, workers);
    const FarRate rate = far.fits ? far_rate(set, far.later, link_, workers, memory_rate) : FarRate{};
    form.rates.push_back({workers, rate.images_per_second});
    if (rate.images_per_second <= far.rate.images_per_second) continue;
    far.rate = rate;
    far.first_rate = far_rate(set, far.first, link_, workers, memory_rate);
  }
  return far;
}

std::vector<FarForm> FarPlan::over_link(std::vector<StorageForm>& forms) const {
  std::vector<FarForm> far;
  for (auto& form : forms) far.push_back(over_link(form));
  if (std::any_of(far.begin(), far.end(), [](const auto& form) { return form.fits; })) return far;
  double least = far[0].shard_bytes;
  for (const auto& form : far) least = std::min(least, form.shard_bytes);
  throw config_error(concat("--cache-limit: is ", byte_text(cache_bytes_),
                            ", which has no room for the shards that the order ", set_.shuffle.text(),
                            " uses at a time, of ", byte_text(static_cast<uint64_t>(least)),
                            " or more each; expected a larger cache, a smaller window, or more --shards"));
}

std::string FarPlan::text(const std::vector<StorageForm>& forms, const std::vector<FarForm>& far) const {
  std::ostringstream out;
  const auto cell = [&](int width) -> std::ostream& { return out << "  " << std::setw(width); };
  out << "\nover a link of " << link_text_ << " per node";
  if (has_cache())
    out << ", with a cache of " << byte_text(cache_bytes_) << " per node and shuffle " << set_.shuffle.text() << " of "
        << count_text(static_cast<uint64_t>(set_.shard_count), "shard")
        << "; images/s of all nodes (what limits, what the link of a node brings per epoch)";
  else
    out << "; images/s of all nodes (what limits)";
  out << "\n" << std::left << std::setw(28) << "pack with" << std::right;
  if (has_cache()) {
    cell(28) << "first epoch";
    cell(28) << "later epochs";
  } else {
    cell(20) << "every epoch";
  }
  out << "\n";
  FarSet set = set_;
  for (size_t i = 0; i < forms.size(); ++i) {
    set.image_bytes = forms[i].image_bytes;
    out << std::left << std::setw(28) << forms[i].flags << std::right;
    if (!far[i].fits) {
      out << "  the cache has no room for the shards of " << byte_text(static_cast<uint64_t>(far[i].shard_bytes))
          << " that are in use at a time\n";
      continue;
    }
    if (has_cache()) cell(28) << cell_text(far[i].first_rate, far[i].first, set, true);
    cell(has_cache() ? 28 : 20) << cell_text(far[i].rate, far[i].later, set, has_cache()) << "\n";
  }
  return out.str();
}

}  // namespace penstock
