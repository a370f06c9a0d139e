// The options of loadbench as one value, and the machine that a measurement was made on.
#pragma once

#include <string>
#include <vector>

#include "loader/loader.h"

namespace penstock {

struct BenchOptions {
  std::string data, split = "train";
  bool is_split_given = false;
  std::vector<int> workers{0, 1, 2, 4};
  std::string augment = "normalize";
  int64_t epochs = 3;
  int64_t max_batches = 0;  ///< An epoch ends behind this many; 0: all.
  std::string json;         ///< Where the results go as JSON; empty: nowhere.
  bool digest = false;
  bool has_all_ranks = false;
  int all_ranks = 0;     ///< Digest over this many ranks, one after the other; 0: of `loader.rank` alone.
  LoaderOptions loader;  ///< All but `workers`.
};

/// Parses the command line; prints the help and exits when asked to. Throws config_error.
BenchOptions parse_bench_options(int argc, char** argv);

struct Machine {
  int cores = 0;     ///< That this process may use.
  std::string cpu;   ///< As /proc/cpuinfo names it.
  std::string simd;  ///< The instruction set that render() uses, by Highway's name: AVX3_ZEN4, AVX2, SSE4.
};
Machine this_machine();

/// Resident memory of this process.
int64_t resident_bytes();

}  // namespace penstock
