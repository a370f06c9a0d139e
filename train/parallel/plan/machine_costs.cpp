// Machine costs: between what was measured, and as JSON.
#include "train/parallel/plan/machine_costs.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_text.h"
#include "core/number_text.h"
#include "core/strict_json.h"
#include "core/text.h"

namespace penstock::detail {

using Json = nlohmann::json;

// In this namespace, where the library looks for them. The names in the file are those of the members.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Work, alone, beside, in_turn)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BlockWork, forward, backward, input_gradient, weight_gradient, joined)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PassCosts, rows, threads, joins, splits, syncs, blocks, loss, skew, gather_skew,
                                   extra_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LineCost, seconds, seconds_per_byte, cores)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Compression, name, rank)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompressionCosts, compression, start, turn, finish)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveCosts, ranks, sum, half_sum, gather, ring_gather, scatter, vote)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MachineCosts, setting, cores, passes, activation_bytes, output_bytes, picture_bytes,
                                   update, touch, compressions, collectives, message, shares_memory, load, base_bytes,
                                   evaluation_bytes)

namespace {

constexpr int kFormat = 4, kMostDepth = 12;

/// The largest number that a key may have: seconds that nobody measures, or bytes that nobody has. With costs so far
/// apart that their sums lose one of them, a simulation would not end.
double most_of(const std::string& key) {
  for (const char* seconds : {"alone", "beside", "in_turn", "seconds", "seconds_per_byte", "skew", "gather_skew"})
    if (key == seconds) return 1e4;
  return key.ends_with("bytes") ? 1e15 : 1e6;
}

/// `key` is that of the value or of the list that it is in.
void check_numbers(const Json& value, const std::string& key, const std::string& where) {
  for (const auto& [inner_key, inner] : value.items())
    if (value.is_structured()) check_numbers(inner, value.is_object() ? inner_key : key, where);
  if (!value.is_number()) return;
  const double most = most_of(key), number = value.get<double>();
  if (number < (key.ends_with("bytes") ? -most : 0) || number > most)
    throw corrupt_error(concat(where, ": ", key, " is ", value.dump(), "; expected at most ", most,
                               key.ends_with("bytes") ? "" : ", and 0 or more"));
}

/// `low` and `high` were measured; never less than nothing.
Work between(const Work& low, const Work& high, double place) {
  const auto mix = [place](double a, double b) { return std::max(0.0, a + (b - a) * place); };
  return {mix(low.alone, high.alone), mix(low.beside, high.beside), mix(low.in_turn, high.in_turn)};
}

PassCosts between(const PassCosts& low, const PassCosts& high, int64_t rows) {
  PassCosts pass = low;
  pass.rows = rows;
  // From one measurement alone, time is proportional to rows.
  const double place = low.rows == high.rows
                           ? static_cast<double>(rows) / static_cast<double>(low.rows)
                           : static_cast<double>(rows - low.rows) / static_cast<double>(high.rows - low.rows);
  const auto at = [&](const Work& a, const Work& b) {
    return low.rows == high.rows ? a * place : between(a, b, place);
  };
  for (size_t block = 0; block < pass.blocks.size(); ++block) {
    const BlockWork &a = low.blocks[block], &b = high.blocks[block];
    pass.blocks[block] = {at(a.forward, b.forward), at(a.backward, b.backward), at(a.input_gradient, b.input_gradient),
                          at(a.weight_gradient, b.weight_gradient), at(a.joined, b.joined)};
  }
  pass.loss = at(low.loss, high.loss);
  pass.skew = at(Work::of(low.skew), Work::of(high.skew)).alone;
  pass.gather_skew = at(Work::of(low.gather_skew), Work::of(high.gather_skew)).alone;
  pass.extra_bytes = at(Work::of(low.extra_bytes), Work::of(high.extra_bytes)).alone;
  return pass;
}

}  // namespace

bool MachineCosts::is_sum(Collective kind) {
  return kind == Collective::kSum || kind == Collective::kHalfSum || kind == Collective::kRingSum;
}

const CollectiveCosts& MachineCosts::measured_for(int rank_count) const {
  return *std::min_element(collectives.begin(), collectives.end(), [rank_count](const auto& a, const auto& b) {
    return std::abs(a.ranks - rank_count) < std::abs(b.ranks - rank_count);
  });
}

const LineCost& MachineCosts::cost_of(const CollectiveCosts& measured, Collective kind) {
  using enum Collective;
  if (kind == kSum) return measured.sum;
  if (kind == kHalfSum) return measured.half_sum;
  if (kind == kGather) return measured.gather;
  if (kind == kRingGather) return measured.ring_gather;
  return kind == kVote ? measured.vote : measured.scatter;
}

double MachineCosts::collective_seconds(Collective kind, double bytes, int rank_count) const {
  using enum Collective;
  const auto& measured = measured_for(rank_count);
  const auto& cost = cost_of(measured, kind);
  const double count = rank_count, ranks = measured.ranks;
  const auto ring = [](double n) { return (n - 1) / n; };
  // Around a ring, a rank waits for each of the others once, and copies what they have. In shared memory all meet at
  // once; sums read and write all bytes, whatever the ranks.
  const bool is_shared = kind == kSum || kind == kHalfSum || kind == kGather;
  const bool goes_around = !shares_memory || !is_shared;
  const double copies = kind == kGather || goes_around ? ring(count) / ring(ranks) : 1;
  const double waits = goes_around ? (count - 1) / (ranks - 1) : 1;
  return cost.seconds * waits + cost.seconds_per_byte * bytes * copies;
}

double MachineCosts::collective_cores(Collective kind, int rank_count) const {
  const auto& measured = measured_for(rank_count);
  return cost_of(measured, kind).cores / measured.ranks;
}

PassCosts MachineCosts::pass(int64_t rows, const PassKind& kind) const {
  std::vector<const PassCosts*> known;
  for (const auto& one : passes)
    if (one.threads == kind.threads && one.joins == kind.joins && one.syncs == kind.syncs &&
        (one.splits || !kind.splits))
      known.push_back(&one);
  if (known.empty() && kind.joins)
    return pass(rows, {.threads = kind.threads, .splits = kind.splits, .syncs = kind.syncs});
  if (known.empty())
    throw config_error(concat("plan-modes: nothing was measured with ", count_text(kind.threads, "thread"),
                              kind.splits ? " and halves of backward" : "", kind.syncs ? " and sync-bn=true" : "",
                              "; expected a --machine with that"));
  std::sort(known.begin(), known.end(), [](const auto* a, const auto* b) { return a->rows < b->rows; });
  const auto above = std::find_if(known.begin(), known.end(), [rows](const auto* one) { return one->rows >= rows; });
  if (above != known.end() && (*above)->rows == rows) return **above;
  if (known.size() == 1) return between(*known.front(), *known.front(), rows);
  const auto high = above == known.end() ? known.end() - 1 : above == known.begin() ? known.begin() + 1 : above;
  return between(**(high - 1), **high, rows);
}

const CompressionCosts& MachineCosts::compressed(const Compression& compression) const {
  const auto found = std::find_if(compressions.begin(), compressions.end(),
                                  [&](const auto& one) { return one.compression == compression; });
  if (found != compressions.end()) return *found;
  throw config_error(concat("plan-modes: compress=", compression.name,
                            compression.rank > 0 ? concat(" with rank=", compression.rank) : std::string(),
                            " was not measured; expected a --machine with that"));
}

std::string to_json(const MachineCosts& costs) {
  Json json{{"format", kFormat}};
  json.update(Json(costs));
  return json_text(json, 1) + "\n";
}

MachineCosts costs_from_json(const std::string& text, const std::string& where) {
  try {
    check_json_depth(text, where, kMostDepth);
    const auto json = Json::parse(text);
    check_numbers(json, "", where);
    if (const auto format = json.at("format").get<int>(); format != kFormat)
      throw corrupt_error(concat(where, ": is of format ", format, "; expected ", kFormat));
    auto costs = json.get<MachineCosts>();
    const size_t blocks = costs.activation_bytes.size();
    if (blocks == 0 || costs.output_bytes.size() != blocks || costs.cores < 1)
      throw corrupt_error(concat(where, ": has no blocks or cores; expected what --save-machine writes"));
    const auto is_alone = [](const auto& one) { return one.ranks < 2; };
    if (costs.collectives.empty() || std::any_of(costs.collectives.begin(), costs.collectives.end(), is_alone))
      throw corrupt_error(
          concat(where, ": has no collectives of two ranks or more; expected what --save-machine ", "writes"));
    for (const auto& pass : costs.passes)
      if (pass.blocks.size() != blocks || pass.rows < 1)
        throw corrupt_error(concat(where, ": a pass of ", pass.rows, " rows has ", pass.blocks.size(),
                                   " blocks; expected 1 row or more and ", blocks));
    return costs;
  } catch (const Json::exception& error) {
    throw corrupt_error(concat(where, ": ", json_problem(error.what()), "; expected what --save-machine writes"));
  }
}

}  // namespace penstock::detail
