// SampleOrder and partition_of(): shards that belong to ranks, or one order for all of them.
#include "loader/rows/sample_order.h"

#include <utility>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/order/mix.h"
#include "loader/samplers/shard_window.h"
#include "loader/samplers/subset.h"

namespace penstock {
namespace {

/// Samples of each rank when shards belong to ranks; one entry per rank.
std::vector<uint64_t> rank_sizes_of(const Dataset& dataset, int world_size) {
  std::vector<uint64_t> sizes(static_cast<size_t>(world_size));
  for (int shard = 0; shard < dataset.shard_count(); ++shard)
    sizes[static_cast<size_t>(shard % world_size)] += dataset.shard_begin(shard + 1) - dataset.shard_begin(shard);
  return sizes;
}

/// Throws config_error that names what chooses samples, where shards belong to ranks.
void refuse_choice(const LoaderOptions& options) {
  const auto& [name, value] = !options.subset.empty()        ? std::pair("subset", options.subset)
                              : !options.exclude_ids.empty() ? std::pair("exclude-ids", options.exclude_ids)
                                                             : std::pair("sampler", options.sampler);
  if (!value.empty())
    throw config_error(concat("loader: ", name, " ", value,
                              " with rank-local shuffling, where a rank knows its own shards alone; expected global "
                              "shuffling, or none"));
}

std::string names_of(const LoaderOptions& options) {
  std::vector<std::string> names;
  if (!options.subset.empty()) names.push_back("subset " + options.subset);
  if (!options.exclude_ids.empty()) names.push_back("without " + options.exclude_ids);
  if (!options.sampler.empty()) names.push_back("sampler " + options.sampler);
  if (options.shuffle.has_window()) names.push_back("shuffle " + options.shuffle.text());
  return join(names);
}

}  // namespace

uint64_t seed_of_copy(uint64_t seed, uint32_t copy) { return copy == 0 ? seed : detail::keyed_bits(seed, copy, 0xC0); }

Partition partition_of(const Dataset& dataset, const LoaderOptions& options) {
  return SampleOrder(dataset, options).partition();
}

SampleOrder::SampleOrder(const Dataset& dataset, const LoaderOptions& options)
    : seed_(options.seed),
      rank_(options.rank),
      world_size_(options.world_size),
      shuffle_(options.shuffle),
      local_count_(dataset.size()),
      names_(names_of(options)),
      weights_(options.weights) {
  if (weights_ && options.sampler.empty())
    throw config_error(concat("loader: ", weights_->size(), " weights without a sampler; expected sampler weighted"));
  if (shuffle_ == Shuffle::kRankLocal) {
    refuse_choice(options);
    add_spans(dataset, options);
    rows_ = dataset.size();
    return;
  }
  if (!options.subset.empty() || !options.exclude_ids.empty()) {
    subset_ = subset_of(dataset, options.subset, options.exclude_ids);
    local_count_ = subset_->size();
  }
  rows_ = local_count_;
  const SamplerContext context{.dataset = dataset,
                               .subset = subset_ ? &*subset_ : nullptr,
                               .weights = weights_.get(),
                               .seed = seed_,
                               .is_shuffled = shuffle_ == Shuffle::kGlobal,
                               .batch_size = options.batch_size};
  if (shuffle_.has_window()) {
    if (!options.sampler.empty())
      throw config_error(concat("loader: sampler ", options.sampler, " with shuffle ", shuffle_.text(),
                                ", which has every sample once; expected shuffle global or none, or no sampler"));
    auto window = ShardWindow::make(shuffle_, context);
    window_ = window.get();
    sampler_ = std::move(window);
  }
  if (!options.sampler.empty()) {
    sampler_ = SamplerRegistry::make(parse_spec(SamplerKind::kName, options.sampler), context);
    rows_ = sampler_->rows();
  }
  partition_.emplace(rows_, options.batch_size, options.rank, options.world_size, options.tail, options.short_batch);
}

void SampleOrder::add_spans(const Dataset& dataset, const LoaderOptions& options) {
  if (dataset.shard_count() < options.world_size) {
    throw config_error(
        concat("loader: rank-local shuffling of ", dataset.shard_count(), " shards over ", options.world_size,
               " ranks; expected a shard or more for each rank: pack with more --shards, or shuffle globally"));
  }
  const auto rank_sizes = rank_sizes_of(dataset, options.world_size);
  partition_ = Partition::rank_local(rank_sizes, options.batch_size, options.rank, options.tail);
  local_count_ = 0;
  for (int shard = options.rank; shard < dataset.shard_count(); shard += options.world_size) {
    spans_.push_back({local_count_, dataset.shard_begin(shard)});
    local_count_ += dataset.shard_begin(shard + 1) - dataset.shard_begin(shard);
  }
  for (int rank = 0; rank < options.rank; ++rank) first_position_ += rank_sizes[static_cast<size_t>(rank)];
}

EpochOrder SampleOrder::order_of(int64_t epoch) const {
  if (sampler_) {
    const MutexLock lock(mutex_);
    Kept& kept = kept_[static_cast<size_t>(epoch) % kept_.size()];
    if (kept.epoch != epoch) kept = {epoch, sampler_->epoch(epoch)};
    return {Order::sequential(rows_), kept.sampled};
  }
  if (shuffle_ == Shuffle::kNone) return {Order::sequential(local_count_)};
  // Ranks that shuffle their own shards must not all use one permutation.
  const uint64_t rank_key = shuffle_ == Shuffle::kRankLocal ? (static_cast<uint64_t>(rank_) + 1) << 32 : 0;
  return {Order::shuffled(local_count_, seed_, static_cast<uint64_t>(epoch) | rank_key)};
}

SampleOrder::Place SampleOrder::place_at(const EpochOrder& order, uint64_t position) const {
  if (is_plain()) return {index_at(order, position), 0};
  const Draw draw = order.sampled ? order.sampled->at(position) : Draw{order.order.at(position), 0};
  return {subset_ ? (*subset_)[draw.element] : draw.element, draw.copy};
}

uint64_t SampleOrder::index_of(uint64_t k) const {
  if (subset_) return (*subset_)[k];
  if (spans_.empty()) return k;
  const auto after = std::upper_bound(spans_.begin(), spans_.end(), k,
                                      [](uint64_t value, const Span& span) { return value < span.first_local; });
  const Span& span = *std::prev(after);
  return span.first_index + (k - span.first_local);
}

std::vector<ShardUse> SampleOrder::shard_uses(const Dataset& dataset, int64_t epoch) const {
  if (window_ != nullptr) return window_->uses(epoch, rank_, world_size_);
  std::vector<ShardUse> uses;
  const bool is_stored_order = shuffle_ == Shuffle::kNone && is_plain(), has_own = shuffle_ == Shuffle::kRankLocal;
  for (int shard = has_own ? rank_ : 0; shard < dataset.shard_count(); shard += has_own ? world_size_ : 1) {
    const uint64_t begin = dataset.shard_begin(shard), end = dataset.shard_begin(shard + 1);
    if (begin == end || rows_ == 0) continue;
    const auto number = static_cast<uint32_t>(shard);
    uses.push_back(is_stored_order ? ShardUse{number, begin, end - 1} : ShardUse{number, 0, rows_ - 1});
  }
  return uses;
}

std::string SampleOrder::text() const {
  const bool is_full = shuffle_.has_window() && window_ == nullptr;
  if (is_plain() && !is_full) return "";
  return concat(names_, ": ", count_text(rows_, "row"), " per epoch of ", count_text(local_count_, "sample"),
                sampler_ ? "; " + sampler_->text() : std::string(),
                is_full ? "; the window has room for all shards, so that this is the full shuffle" : "");
}

std::string SampleOrder::identity(const Dataset& dataset) const {
  if (is_plain()) return "";
  const uint64_t chosen = subset_ ? checksum_of(dataset, *subset_) : 0, how = sampler_ ? sampler_->checksum() : 0;
  return concat(
      names_, ": ", rows_, " rows of ", local_count_, " samples, checksum ",
      printed("%016llx%016llx", static_cast<unsigned long long>(chosen), static_cast<unsigned long long>(how)));
}

}  // namespace penstock
