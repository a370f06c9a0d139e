// Order audit: counts over batches, and the expectations of the full shuffle.
#include "loader/order/order_audit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>

namespace penstock {
namespace {

double pairs(double count) { return count * (count - 1) / 2; }

/// The shares and the labels of the classes that have elements.
class ClassCheck {
 public:
  explicit ClassCheck(const AuditedOrder& order) : counts_(order.class_counts.size()) {
    for (const uint64_t count : order.class_counts)
      expected_.push_back(static_cast<double>(count) * static_cast<double>(order.batch_size) /
                          static_cast<double>(std::max<uint64_t>(order.rows(), 1)));
    freedom_ =
        static_cast<double>(std::count_if(expected_.begin(), expected_.end(), [](double e) { return e > 0; })) - 1;
  }
  bool can_tell() const { return freedom_ > 0; }
  void add(int64_t label) {
    if (label >= 0) ++counts_[static_cast<size_t>(label)];
  }
  /// Chi^2 per degree of freedom of what was added; the next batch begins.
  double take() {
    double sum = 0;
    for (size_t c = 0; c < counts_.size(); ++c) {
      const double off = counts_[c] - expected_[c];
      if (expected_[c] > 0) sum += off * off / expected_[c];
      counts_[c] = 0;
    }
    return sum / freedom_;
  }

 private:
  std::vector<double> expected_, counts_;  // one entry per class
  double freedom_ = 0;
};

double quantile(std::vector<double>& values, double share) {
  const auto place = static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

/// Positions ascend, so that their ranks are 0, 1, ...; no element occurs twice.
double rank_correlation(const std::vector<uint64_t>& elements) {
  const size_t count = elements.size();
  if (count < 2) return -1;
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return elements[a] < elements[b]; });
  double squares = 0;
  for (size_t rank = 0; rank < count; ++rank) {
    const double off = static_cast<double>(rank) - static_cast<double>(order[rank]);
    squares += off * off;
  }
  const auto n = static_cast<double>(count);
  return 1 - 6 * squares / (n * (n * n - 1));
}

/// The distance within which a share of the elements lies, where the position is uniform in [begin, end) and the
/// element in [0, 1): bisection over the mean of the uniform's mass around 256 positions.
double expected_quantile(double begin, double end, double share) {
  constexpr int kPositions = 256, kHalvings = 40;
  double low = 0, high = 1;
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double distance = (low + high) / 2;
    double mass = 0;
    for (int i = 0; i < kPositions; ++i) {
      const double x = begin + (end - begin) * (i + 0.5) / kPositions;
      mass += (std::min(x + distance, 1.0) - std::max(x - distance, 0.0)) / kPositions;
    }
    (mass < share ? low : high) = distance;
  }
  return (low + high) / 2;
}

}  // namespace

MixFigures mix_figures(const AuditedOrder& order, uint64_t begin, uint64_t end) {
  MixFigures figures;
  ClassCheck classes(order);
  double chi2 = 0;
  std::unordered_map<uint64_t, uint64_t> shards;  // rows of each shard in the batch
  std::vector<uint64_t> elements;
  std::vector<double> moved;
  const auto& begins = order.shard_begins;
  for (uint64_t batch = begin; batch < end; ++batch) {
    shards.clear();
    for (uint64_t row = 0; row < order.batch_size; ++row) {
      const uint64_t position = batch * order.batch_size + row, element = order.at(position);
      ++shards[static_cast<uint64_t>(std::upper_bound(begins.begin(), begins.end(), element) - begins.begin()) - 1];
      if (classes.can_tell()) classes.add(order.label_of(element));
      elements.push_back(element);
      const uint64_t distance = position < element ? element - position : position - element;
      moved.push_back(static_cast<double>(distance) / static_cast<double>(order.rows()));
    }
    figures.shards += static_cast<double>(shards.size());
    for (const auto& [shard, count] : shards) figures.same_shard_pairs += pairs(static_cast<double>(count));
    if (classes.can_tell()) chi2 += classes.take();
  }
  const auto batches = static_cast<double>(end - begin);
  figures.shards /= batches;
  figures.same_shard_pairs /= batches;
  if (classes.can_tell()) figures.class_chi2 = chi2 / batches;
  figures.moved_p50 = quantile(moved, 0.5);
  figures.moved_p90 = quantile(moved, 0.9);
  figures.moved_p99 = quantile(moved, 0.99);
  figures.correlation = rank_correlation(elements);
  return figures;
}

MixFigures expected_figures(const AuditedOrder& order, uint64_t begin, uint64_t end) {
  MixFigures figures;
  const auto rows = static_cast<double>(order.rows()), batch = static_cast<double>(order.batch_size);
  const auto log_choose = [&](double from) {  // without the factorial of `batch`, which cancels
    return std::lgamma(from + 1) - std::lgamma(from - batch + 1);
  };
  for (size_t shard = 0; shard + 1 < order.shard_begins.size(); ++shard) {
    const auto size = static_cast<double>(order.shard_begins[shard + 1] - order.shard_begins[shard]);
    figures.shards += rows - size < batch ? 1 : 1 - std::exp(log_choose(rows - size) - log_choose(rows));
    figures.same_shard_pairs += rows > 1 ? pairs(batch) * size * (size - 1) / (rows * (rows - 1)) : 0;
  }
  if (ClassCheck(order).can_tell()) figures.class_chi2 = (rows - batch) / (rows - 1);  // without replacement
  const double from = static_cast<double>(begin) * batch / rows, to = static_cast<double>(end) * batch / rows;
  figures.moved_p50 = expected_quantile(from, to, 0.5);
  figures.moved_p90 = expected_quantile(from, to, 0.9);
  figures.moved_p99 = expected_quantile(from, to, 0.99);
  figures.correlation = 0;
  return figures;
}

ReadFigures read_figures(const std::vector<std::vector<ShardUse>>& uses, const std::vector<uint64_t>& shard_bytes,
                         uint64_t batch_size) {
  ReadFigures figures;
  std::set<uint32_t> all;
  for (const auto& own : uses) {
    std::set<uint32_t> shards;
    std::unordered_map<uint64_t, uint64_t> begun;         // uses by the batch of their first row
    std::vector<std::pair<uint64_t, ptrdiff_t>> changes;  // position, and the use that begins (+) or is over (-) there
    for (size_t i = 0; i < own.size(); ++i) {
      shards.insert(own[i].shard);
      ++begun[own[i].first / batch_size];
      changes.emplace_back(own[i].first, static_cast<ptrdiff_t>(i) + 1);
      changes.emplace_back(own[i].last + 1, -static_cast<ptrdiff_t>(i) - 1);
    }
    std::sort(changes.begin(), changes.end());  // at one position, ends come first
    uint64_t bytes = 0, count = 0;
    for (const auto& [position, change] : changes) {
      const auto& use = own[static_cast<size_t>(std::abs(change)) - 1];
      bytes = change > 0 ? bytes + shard_bytes[use.shard] : bytes - shard_bytes[use.shard];
      count = change > 0 ? count + 1 : count - 1;
      figures.held_bytes = std::max(figures.held_bytes, bytes);
      figures.held_shards = std::max(figures.held_shards, count);
    }
    for (const auto& [batch, new_shards] : begun) {
      auto& most = batch == 0 ? figures.first : figures.burst;
      most = std::max(most, new_shards);
    }
    figures.dropped += static_cast<double>(own.size());
    figures.kept += static_cast<double>(shards.size());
    all.insert(shards.begin(), shards.end());
  }
  if (all.empty()) return figures;
  figures.dropped /= static_cast<double>(all.size());
  figures.kept /= static_cast<double>(all.size());
  return figures;
}

double full_shuffle_reads(const AuditedOrder& order, uint64_t held, uint64_t nodes) {
  const auto shards = static_cast<double>(order.shard_begins.size() - 1);
  AuditedOrder part = order;
  part.batch_size = std::max<uint64_t>(order.batch_size / nodes, 1);
  const double in_a_batch = expected_figures(part, 0, 1).shards * static_cast<double>(nodes);
  return in_a_batch * static_cast<double>(order.full_batches()) / shards *
         std::max(0.0, 1 - static_cast<double>(held) / shards);
}

}  // namespace penstock
