// loadbench: how fast the loader is, stage by stage, and whether it delivers the same bytes however it is run.
#include <iostream>

#include "tools/cli.h"
#include "tools/loadbench/measure.h"
#include "tools/loadbench/options.h"
#include "tools/loadbench/report.h"

int main(int argc, char** argv) {
  return penstock::run_tool("loadbench", [&] {
    const auto options = penstock::parse_bench_options(argc, argv);
    const auto dataset = penstock::Dataset::open(options.data, options.split, penstock::needed_shards(options.loader));
    const penstock::Pipeline pipeline(options.augment, dataset->manifest().statistics);
    std::vector<penstock::BenchRun> runs;
    std::vector<std::string> hexes;
    if (options.digest) {
      hexes = penstock::digests(dataset, pipeline, options);
      for (size_t epoch = 0; epoch < hexes.size(); ++epoch)
        std::cout << "epoch " << epoch << " digest " << hexes[epoch] << '\n';
    } else {
      runs = penstock::measure(dataset, pipeline, options);
      std::cout << penstock::report_table(*dataset, options, runs);
    }
    if (!options.json.empty()) penstock::write_report(*dataset, options, runs, hexes);
    return 0;
  });
}
