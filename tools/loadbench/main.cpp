// loadbench: measures how fast the loader is, stage by stage, and whether it always delivers the same bytes.
//
// Lives here: the program `loadbench`: flags, measurements, advice, reports.
// Not here: what limits a loop over a loader (loader/bottleneck).
#include <iostream>

#include "core/error.h"
#include "core/text.h"
#include "loader/shards/pipeline_of.h"
#include "tools/cli.h"
#include "tools/loadbench/advice.h"
#include "tools/loadbench/audit.h"
#include "tools/loadbench/measure.h"
#include "tools/loadbench/options.h"
#include "tools/loadbench/report.h"
#include "tools/out_file.h"

namespace penstock {
namespace {

/// Opens --data. If that is the folder of one split, --split may only name that split.
std::shared_ptr<const Dataset> open_dataset(const BenchOptions& options) {
  const RankShards share = options.also.empty() ? needed_shards(options.loader) : RankShards{};
  auto dataset = Dataset::open(options.data, options.split, share);
  const auto& split = dataset->manifest().split;
  if (options.is_split_given && dataset->folder() == options.data && split != options.split) {
    throw config_error(concat("--split: is ", in_quotes(options.split), " with ", options.data,
                              ", the folder of split ", split, "; expected the data set's folder, or no --split"));
  }
  std::vector<std::shared_ptr<const Dataset>> all{dataset};
  for (const auto& other : options.also) all.push_back(Dataset::open(other, options.split));
  dataset = Dataset::join(all);
  if (dataset->size() == 0) throw config_error(concat(dataset->folder().string(), ": 0 samples; expected 1 or more"));
  return dataset;
}

/// A line about which samples an epoch has, how often and how mixed, unless it has all of them once in the full
/// shuffle.
void print_choice(const Dataset& dataset, const LoaderOptions& options) {
  const bool is_whole = options.subset.empty() && options.exclude_ids.empty() && options.sampler.empty();
  if (is_whole && !options.shuffle.has_window()) return;
  std::cout << SampleOrder(dataset, options).text() << std::endl;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  return penstock::run_tool("loadbench", [&] {
    const auto options = penstock::parse_bench_options(argc, argv);
    const auto dataset = penstock::open_dataset(options);
    if (!options.json.empty()) penstock::check_out_file("--json", options.json, *dataset);
    const std::string quarantine = options.loader.quarantine.string();
    if (!quarantine.empty()) penstock::check_out_file("--quarantine", quarantine, *dataset);
    const auto pipeline = penstock::pipeline_of(options.augment, *dataset);
    penstock::print_choice(*dataset, options.loader);
    if (options.audit) {
      const auto report = penstock::audit(*dataset, options);
      std::cout << penstock::audit_table(report, options);
      if (!options.json.empty()) penstock::write_audit(report, options);
      return 0;
    }
    std::vector<penstock::BenchRun> runs;
    std::vector<std::string> hexes;
    if (options.digest) {
      hexes = penstock::digests(dataset, pipeline, options);
      for (size_t epoch = 0; epoch < hexes.size(); ++epoch)
        std::cout << "epoch " << epoch << " digest " << hexes[epoch] << '\n';
    } else {
      runs = penstock::measure(dataset, pipeline, options);
      std::cout << penstock::report_table(*dataset, options, runs) << penstock::advice(*dataset, options, runs);
    }
    if (!options.json.empty()) penstock::write_report(*dataset, options, runs, hexes);
    return 0;
  });
}
