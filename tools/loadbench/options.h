// The options of loadbench as one value, and the machine that a measurement was made on.
#pragma once

#include <string>
#include <vector>

#include "loader/batch/loader.h"

namespace penstock {

struct BenchOptions {
  std::string data, split = "train";
  std::vector<std::string> also;  ///< Further data sets.
  bool is_split_given = false;
  std::vector<int> workers{0, 1, 2, 4};
  std::string augment = "normalize";
  int64_t epochs = 3;
  int64_t max_batches = 0;  ///< An epoch ends after this many batches; 0: after all of them.
  std::string json;         ///< The file that gets the results as JSON; empty: none.
  bool digest = false;
  bool audit = false;
  bool has_all_ranks = false;
  int all_ranks = 0;     ///< The digest is of this many ranks, one after the other; 0: of `loader.rank` alone.
  LoaderOptions loader;  ///< All but `workers`.
};

/// Parses the command line; prints the help and exits when asked to. Throws config_error.
BenchOptions parse_bench_options(int argc, char** argv);

struct Machine {
  int cores = 0;     ///< The cores that this process may use.
  std::string cpu;   ///< The processor's name in /proc/cpuinfo.
  std::string simd;  ///< The instruction set that render() uses: AVX-512, AVX2, SSE4.
};
Machine this_machine();

}  // namespace penstock
