// The audit of an order: two orders over the same samples, and their figures side by side.
#include "tools/loadbench/audit.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/json_text.h"
#include "core/number_text.h"
#include "core/text.h"
#include "tools/out_file.h"

namespace penstock {
namespace {

constexpr uint64_t kMostRows = 400'000;  // of a stretch

/// The samples of `order` as elements, whose numbers count through the shards without those that a subset leaves out.
uint64_t element_of(const SampleOrder& order, uint64_t index) {
  uint64_t low = 0, high = order.size();
  while (low + 1 < high) {
    const uint64_t middle = low + (high - low) / 2;
    (order.index_of(middle) <= index ? low : high) = middle;
  }
  return low;
}

/// An order and what the audit asks of it. `order` and `dataset` must outlive it.
AuditedOrder audited(const Dataset& dataset, const SampleOrder& order, uint64_t batch_size) {
  const EpochOrder epoch = order.order_of(0);
  const bool is_whole = order.size() == dataset.size();
  AuditedOrder out;
  out.batch_size = batch_size;
  out.at = [&order, epoch, is_whole](uint64_t position) {
    const uint64_t index = order.place_at(epoch, position).index;
    return is_whole ? index : element_of(order, index);
  };
  out.label_of = [&dataset, &order](uint64_t element) { return dataset.at(order.index_of(element)).label; };
  for (int shard = 0; shard <= dataset.shard_count(); ++shard) {
    const uint64_t begin = dataset.shard_begin(shard);
    const bool is_end = order.size() == 0 || order.index_of(order.size() - 1) < begin;
    const uint64_t element = is_whole ? begin : is_end ? order.size() : element_of(order, begin);
    const bool is_before = !is_whole && !is_end && order.index_of(element) < begin;
    out.shard_begins.push_back(element + (is_before ? 1 : 0));
  }
  out.class_counts = dataset.manifest().class_counts;
  if (is_whole) return out;
  std::fill(out.class_counts.begin(), out.class_counts.end(), 0);
  if (!out.class_counts.empty())
    for (uint64_t element = 0; element < order.size(); ++element)
      ++out.class_counts[static_cast<size_t>(out.label_of(element))];
  return out;
}

void refuse(const BenchOptions& options, uint64_t rows) {
  const auto& loader = options.loader;
  if (!loader.sampler.empty())
    throw config_error(concat("--sampler: is ", in_quotes(loader.sampler),
                              " with --audit, and has samples more or less often; expected no sampler"));
  if (loader.shuffle == Shuffle::kRankLocal)
    throw config_error(concat("--shuffle: is ", in_quotes(loader.shuffle.text()),
                              " with --audit, where each rank has an order of its own; expected another"));
  if (rows < static_cast<uint64_t>(loader.batch_size))
    throw config_error(concat("--audit: ", count_text(rows, "sample"), " with a batch size of ", loader.batch_size,
                              "; expected a full batch"));
}

nlohmann::ordered_json mix_json(const MixFigures& figures) {
  return {{"shards_per_batch", figures.shards},
          {"same_shard_pairs", figures.same_shard_pairs},
          {"class_chi2_per_df", figures.class_chi2},
          {"displacement", {figures.moved_p50, figures.moved_p90, figures.moved_p99}},
          {"rank_correlation", figures.correlation}};
}

}  // namespace

AuditReport audit(const Dataset& dataset, const BenchOptions& options) {
  LoaderOptions loader = options.loader;
  const auto world_size = loader.world_size;
  loader.world_size = 1, loader.rank = 0;
  refuse(options, dataset.size());
  const SampleOrder own_order(dataset, loader);
  refuse(options, own_order.rows());
  loader.shuffle = Shuffle::kGlobal;
  const SampleOrder full_order(dataset, loader);
  const auto batch_size = static_cast<uint64_t>(loader.batch_size);
  const auto own = audited(dataset, own_order, batch_size), full = audited(dataset, full_order, batch_size);
  const uint64_t batches = own.full_batches();
  const uint64_t length = std::clamp<uint64_t>(batches / 20, 1, std::max<uint64_t>(kMostRows / batch_size, 1));
  const uint64_t middle = (batches - length) / 2;
  AuditReport report{{{{"first", 0, length, {}, {}, {}},
                       {"middle", middle, middle + length, {}, {}, {}},
                       {"last", batches - length, batches, {}, {}, {}}}},
                     {},
                     0,
                     0,
                     own.rows(),
                     own.shard_begins.size() - 1,
                     0};
  for (auto& stretch : report.stretches) {
    stretch.own = mix_figures(own, stretch.begin, stretch.end);
    stretch.full = mix_figures(full, stretch.begin, stretch.end);
    stretch.expected = expected_figures(own, stretch.begin, stretch.end);
  }
  std::vector<std::vector<ShardUse>> uses;
  loader = options.loader;
  for (loader.rank = 0; loader.rank < world_size; ++loader.rank)
    uses.push_back(SampleOrder(dataset, loader).shard_uses(dataset, 0));
  std::vector<uint64_t> bytes;
  for (const auto& shard : dataset.manifest().shards) bytes.push_back(shard.byte_count), report.bytes += bytes.back();
  report.reads = read_figures(uses, bytes, batch_size);
  report.full_reads = full_shuffle_reads(own, report.reads.held_shards, static_cast<uint64_t>(world_size));
  auto part = own;
  part.batch_size = std::max<uint64_t>(batch_size / static_cast<uint64_t>(world_size), 1);
  report.full_shards = expected_figures(part, 0, 1).shards;
  return report;
}

std::string audit_table(const AuditReport& report, const BenchOptions& options) {
  const auto& loader = options.loader;
  std::ostringstream out;
  out << "order " << loader.shuffle.text() << ": " << count_text(report.rows, "sample") << " in "
      << count_text(report.shards, "shard") << ", batches of " << loader.batch_size << ", seed " << loader.seed
      << ", epoch 0\nown: this order; full: the full shuffle, measured in the same way; expected: its mean, from "
         "formulas\n\n";
  out << std::left << std::setw(28) << "";
  for (const auto& stretch : report.stretches) {
    const uint64_t first = stretch.begin, last = stretch.end - 1;
    out << std::setw(30) << concat(stretch.name, " 5 %, batches ", first, "-", last);
  }
  out << '\n' << std::setw(28) << "";
  for (size_t i = 0; i < report.stretches.size(); ++i)
    out << std::setw(10) << "own" << std::setw(10) << "full" << std::setw(10) << "expected";
  out << '\n';
  const auto line = [&](const char* name, double MixFigures::*figure, int digits) {
    out << std::left << std::setw(28) << name << std::fixed << std::setprecision(digits);
    for (const auto& stretch : report.stretches)
      for (const auto* column : {&stretch.own, &stretch.full, &stretch.expected}) {
        const double value = column->*figure;
        if (value == -1)
          out << std::setw(10) << '-';
        else
          out << std::setw(10) << value;
      }
    out << '\n';
  };
  line("shards per batch", &MixFigures::shards, 1);
  line("same-shard pairs per batch", &MixFigures::same_shard_pairs, 1);
  line("class chi^2 / df", &MixFigures::class_chi2, 2);
  line("displacement p50", &MixFigures::moved_p50, 3);
  line("displacement p90", &MixFigures::moved_p90, 3);
  line("displacement p99", &MixFigures::moved_p99, 3);
  line("rank correlation", &MixFigures::correlation, 3);
  const auto& reads = report.reads;
  out << std::setprecision(2) << "\nreads per shard over "
      << count_text(static_cast<uint64_t>(loader.world_size), "node") << ": " << reads.dropped
      << " where a shard is dropped after each use, " << reads.kept
      << " where it is kept; full shuffle: " << report.full_reads << " with as many shards kept as are in use here\n"
      << "in use at a time, on one node: at most " << count_text(reads.held_shards, "shard") << ", "
      << byte_text(reads.held_bytes) << " of " << byte_text(report.bytes) << '\n'
      << "burst: " << reads.first << " shards begin in the first batch, at most " << reads.burst
      << " in a later one; a node's rows of a batch of the full shuffle are of " << std::setprecision(1)
      << report.full_shards << " shards\n";
  return out.str();
}

void write_audit(const AuditReport& report, const BenchOptions& options) {
  nlohmann::ordered_json json = {{"shuffle", options.loader.shuffle.text()},
                                 {"samples", report.rows},
                                 {"shards", report.shards},
                                 {"bytes", report.bytes},
                                 {"batch_size", options.loader.batch_size},
                                 {"nodes", options.loader.world_size},
                                 {"seed", options.loader.seed}};
  for (const auto& stretch : report.stretches)
    json["stretches"][stretch.name] = {{"batches", {stretch.begin, stretch.end}},
                                       {"own", mix_json(stretch.own)},
                                       {"full", mix_json(stretch.full)},
                                       {"expected", mix_json(stretch.expected)}};
  const auto& reads = report.reads;
  json["reads"] = {{"per_shard_dropped", reads.dropped},
                   {"per_shard_kept", reads.kept},
                   {"full_shuffle", report.full_reads},
                   {"held_shards", reads.held_shards},
                   {"held_bytes", reads.held_bytes},
                   {"first_batch", reads.first},
                   {"burst", reads.burst}};
  write_out_file("--json", options.json, json_text(json, 2) + "\n");
}

}  // namespace penstock
