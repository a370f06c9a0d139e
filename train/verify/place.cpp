// Place: what `single` has for a record, and the records in the order of a step.
#include "train/verify/place.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::infinity();

/// A tensor of the whole model in one step.
using Key = std::tuple<int64_t, TapPoint, std::string>;
Key key_of(const TapRecord& record) {
  const auto point = record.point == TapPoint::kRecompute ? TapPoint::kForward : record.point;
  return {record.step, point, record.name};
}

double largest(const torch::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.to(torch::kFloat64).abs().max().item<double>();
}

/// The tensors of `single`.
class Reference {
 public:
  explicit Reference(const TapRecords& records) {
    for (const auto& record : records) records_[key_of(record)].push_back(record);
    for (auto& [key, list] : records_) {
      std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      if (!has_rows(std::get<1>(key))) continue;
      std::vector<torch::Tensor> rows;
      for (const auto& one : list) rows.push_back(one.value);
      list.front().value = torch::cat(rows);
      list.front().count = list.front().value.size(0);
      list.resize(1);
    }
  }

  bool has(const Key& key) const { return records_.contains(key); }

  /// The same rows or elements; undefined: there are none.
  torch::Tensor like(const TapRecord& record) const {
    const auto found = records_.find(key_of(record));
    if (found == records_.end()) return {};
    if (record.point == TapPoint::kContribution) {
      for (const auto& one : found->second)
        if (one.first == record.first && one.count == record.count) return one.value;
      return {};
    }
    const auto& whole = found->second.front();
    const int64_t first = record.first - whole.first;
    if (first < 0 || first + record.count > whole.count) return {};
    return whole.value.narrow(0, first, record.count);
  }

  /// |difference| relative to the largest element of the whole tensor. What some rows add to a gradient is often larger
  /// than the sum of all rows, and rounds by its own size.
  double difference(const TapRecord& record) const {
    const auto expected = like(record);
    if (!expected.defined() || expected.sizes() != record.value.sizes()) return kNoNumber;
    const double difference = largest(record.value.to(torch::kFloat64) - expected.to(torch::kFloat64));
    if (difference == 0) return 0;
    const double scale = record.point == TapPoint::kContribution
                             ? std::max(largest(expected), largest_of({record.step, TapPoint::kSum, record.name}))
                             : largest_of(key_of(record));
    const double relative = difference / scale;
    return std::isfinite(relative) ? relative : kNoNumber;
  }

  /// What no rank has run, of what a block gives.
  std::vector<TapRecord> missing_rows(const TapRecords& mode) const {
    std::map<Key, std::vector<std::pair<int64_t, int64_t>>> runs;  // first row and end
    for (const auto& record : mode)
      if (record.point == TapPoint::kForward)
        runs[key_of(record)].emplace_back(record.first, record.first + record.count);
    std::vector<TapRecord> missing;
    for (const auto& [key, list] : records_) {
      if (std::get<1>(key) != TapPoint::kForward) continue;
      TapRecord lost = list.front();
      const int64_t end = lost.first + lost.count;
      auto& ran = runs[key];
      std::sort(ran.begin(), ran.end());
      int64_t next = lost.first;
      for (const auto& [first, last] : ran) {
        if (first > next) break;
        next = std::max(next, last);
      }
      if (next == end) continue;
      lost.first = next;
      lost.rank = -1;
      missing.push_back(lost);
    }
    return missing;
  }

 private:
  double largest_of(const Key& key) const {
    const auto found = records_.find(key);
    return found == records_.end() ? 0 : largest(found->second.front().value);
  }

  std::map<Key, std::vector<TapRecord>> records_;  // of rows one entry with all of them
};

/// A record that is not as it should be.
struct Finding {
  TapRecord record;
  std::string problem = {};
  double difference = kNoNumber, bound = 0;
};

/// An order in which no tensor follows from a later one.
auto order_of(const TapRecord& record) {
  const bool is_backward = record.point == TapPoint::kOutputGradient || record.point == TapPoint::kContribution;
  const int phase = static_cast<int>(is_backward ? TapPoint::kOutputGradient : record.point);
  const int64_t block = static_cast<int64_t>(record.block) * (is_backward ? -1 : 1);
  return std::tuple(record.step, phase, block, record.point, record.first, record.rank, record.name);
}

/// Every forward of a rank needs one gradient of its output, and one of each parameter.
std::vector<Finding> uneven_backwards(const TapRecords& mode, const Reference& single) {
  using Run = std::tuple<int64_t, int, size_t, int64_t>;  // step, rank, block, first row
  std::map<std::pair<Run, std::string>, int> added;
  std::set<Run> came_back;
  std::map<std::pair<int64_t, size_t>, std::set<std::string>> names;  // by step and block
  const auto run_of = [](const TapRecord& one) { return Run{one.step, one.rank, one.block, one.first}; };
  for (const auto& one : mode) {
    if (one.point == TapPoint::kOutputGradient) came_back.insert(run_of(one));
    if (one.point == TapPoint::kContribution) ++added[{run_of(one), one.name}];
    if (one.point == TapPoint::kSum) names[{one.step, one.block}].insert(one.name);
  }
  std::vector<Finding> findings;
  for (const auto& one : mode) {
    if (one.point != TapPoint::kForward) continue;
    TapRecord lost = one;
    lost.point = TapPoint::kOutputGradient;
    if (!came_back.contains(run_of(one)) && single.has(key_of(lost))) findings.push_back({lost, "is missing"});
    lost.point = TapPoint::kContribution;
    for (const auto& name : names[{one.step, one.block}]) {
      lost.name = name;
      const int count = added[{run_of(one), name}];
      if (count != 1 && single.has(key_of(lost))) findings.push_back({lost, count == 0 ? "is missing" : "comes twice"});
    }
  }
  return findings;
}

/// Where a BatchNorm makes rows depend on each other, what some rows add cannot be compared, but what all add can.
std::vector<Finding> sums_that_differ(const TapRecords& mode, const Reference& single) {
  std::map<Key, TapRecord> sums;
  for (const auto& one : mode) {
    if (one.point != TapPoint::kContribution || single.like(one).defined()) continue;
    const auto [sum, is_new] = sums.try_emplace(key_of(one), one);
    if (is_new) continue;
    sum->second.value = sum->second.value + one.value;
    sum->second.rank = -1;
  }
  std::vector<Finding> findings;
  for (auto& [key, sum] : sums) {
    TapRecord like_sum = sum;
    like_sum.point = TapPoint::kSum;
    like_sum.first = 0;
    like_sum.count = sum.value.numel();
    sum.first = -1;
    findings.push_back({sum, "", single.difference(like_sum)});
  }
  return findings;
}

std::string operation_of(const TapRecord& record, const TapRecords& mode) {
  switch (record.point) {
    case TapPoint::kForward:
      return "forward";
    case TapPoint::kRecompute:
      return "recompute";
    case TapPoint::kOutputGradient:
    case TapPoint::kContribution:
      return "backward";
    case TapPoint::kSum:
      return "sum";
    case TapPoint::kUpdate:
      return "update";
    case TapPoint::kShare:
      return "gather";
    case TapPoint::kStart:
      break;
  }
  // Where no rank has a parameter whole at the end of a step, the forward gathers it.
  const bool is_whole = std::any_of(mode.begin(), mode.end(), [&](const TapRecord& one) {
    return one.point == TapPoint::kShare && one.name == record.name && one.rank == record.rank;
  });
  return is_whole ? "between steps" : "gather";
}

std::string tensor_of(const TapRecord& record) {
  if (record.point == TapPoint::kForward || record.point == TapPoint::kRecompute)
    return concat("output of ", record.name);
  if (record.point == TapPoint::kOutputGradient) return concat("gradient of the output of ", record.name);
  const bool is_gradient = record.point == TapPoint::kContribution || record.point == TapPoint::kSum;
  return concat(is_gradient ? "gradient of " : "", record.name);
}

Place place_of(const Finding& finding, const TapComparison& taps) {
  const auto& record = finding.record;
  Place place{.step = record.step,
              .rank = record.rank,
              .operation = operation_of(record, taps.mode),
              .tensor = tensor_of(record),
              .problem = finding.problem,
              .difference = finding.difference,
              .bound = finding.bound};
  std::set<int64_t> firsts;
  std::map<size_t, std::string> blocks;
  size_t block_count = 0;
  for (const auto& one : taps.single) block_count = std::max(block_count, one.block + 1);
  for (const auto& one : taps.mode) {
    if (one.point != TapPoint::kForward || one.step != record.step || one.rank != record.rank) continue;
    firsts.insert(one.first);
    blocks[one.block] = one.name;
  }
  if (has_rows(record.point) || record.point == TapPoint::kContribution)
    if (const auto found = firsts.find(record.first); found != firsts.end())
      place.micro_batch = static_cast<int>(std::distance(firsts.begin(), found));
  if (!blocks.empty() && blocks.size() < block_count)
    place.stage =
        blocks.size() == 1 ? blocks.begin()->second : concat(blocks.begin()->second, " .. ", blocks.rbegin()->second);
  return place;
}

std::string number(double value) { return printed("%.1e", value); }

}  // namespace

std::string text_of(const Place& place) {
  std::string where = concat("step ", place.step);
  if (place.micro_batch >= 0) where += concat(", micro-batch ", place.micro_batch);
  if (place.rank >= 0) where += concat(", rank ", place.rank);
  if (!place.stage.empty()) where += concat(", stage ", place.stage);
  if (place.problem == "fails")
    return concat(where, ": ", place.operation, place.tensor.empty() ? "" : concat(" (", place.tensor, ")"), " fails");
  const std::string after =
      place.operation == "between steps" ? " changes between two steps"
      : place.operation == "forward" || place.operation == "recompute" || place.operation == "backward"
          ? concat(" in ", place.operation)
          : concat(" after the ", place.operation);
  const std::string what = !place.problem.empty()
                               ? concat(" ", place.problem)
                               : concat(place.operation == "between steps" ? " and" : "", " differs by ",
                                        number(place.difference), " (bound ", number(place.bound), ")");
  return concat(where, ": ", place.tensor, after, what);
}

std::optional<Place> first_place(const TapComparison& taps) {
  const Reference single(taps.single);
  std::map<Key, double> rounding;
  for (const auto& record : taps.rounded) {
    const double own = single.difference(record);
    auto& most = rounding[key_of(record)];
    if (std::isfinite(own)) most = std::max(most, own);
  }
  const auto bound_of = [&](const TapRecord& record) {
    double own = rounding[key_of(record)];
    if (record.point == TapPoint::kContribution)
      own = std::max(own, rounding[{record.step, TapPoint::kSum, record.name}]);
    return std::max(taps.bound, taps.factor * own);
  };

  std::vector<Finding> findings = uneven_backwards(taps.mode, single);
  for (const auto& lost : single.missing_rows(taps.mode)) findings.push_back({lost, "is missing for some rows"});
  for (auto& sum : sums_that_differ(taps.mode, single)) findings.push_back(std::move(sum));
  for (const auto& record : taps.mode)
    if (record.point != TapPoint::kContribution || single.like(record).defined())
      findings.push_back({record, "", single.difference(record)});

  const Finding* first = nullptr;
  for (auto& finding : findings) {
    finding.bound = bound_of(finding.record);
    const bool differs = !finding.problem.empty() || finding.difference > finding.bound;
    if (differs && (!first || order_of(finding.record) < order_of(first->record))) first = &finding;
  }
  if (!first) return std::nullopt;
  return place_of(*first, taps);
}

}  // namespace penstock
