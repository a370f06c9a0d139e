// Launch options: what a launch trains, and how it has ended.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "train/optimizers/optimizer.h"
#include "train/verify/progress.h"
#include "train/verify/subject.h"
#include "train/verify/taps.h"

namespace penstock {

/// What ranks are.
enum class Hosting {
  kThreads,
  kProcesses,  // as `train` starts them on one machine: large sums and messages go through shared memory
  kSockets,    // processes that use sockets alone, as on several machines
};

struct Launch {
  std::string mode;
  Subject subject = {};
  int ranks = 1;
  Hosting hosting = Hosting::kThreads;  // of several ranks
  torch::ScalarType dtype = torch::kFloat64;
  OptimizerOptions optimizer = {};
  int64_t batch_size = 0;
  bool is_on_gpu = false;                // all ranks on GPU 0; otherwise on the CPU
  int micro_shards = 0;                  // of --exact; 0: without it
  int64_t first_step = 0, end_step = 0;  // step k trains on batch k, counted around the samples
  int64_t step_count = 0;                // of the whole training, of which these may be a part
  bool evaluates = false;                // all samples, after the last step
  std::filesystem::path from = {};       // the state to go on from; empty: initial weights, always the same
  bool is_nudged = false;                // every initial weight is larger by one unit in the last place
  std::optional<TapPlan> taps = {};      // read_taps() then reads what they saw; none: nobody looks
};

/// How a launch has ended.
struct LaunchEnd {
  std::string failure = {};  // what went wrong, in one line; "": nothing
  int rank = -1;             // the one that failed; -1: not known
  RankProgress at = {};      // what that rank was doing, or the one that had come furthest
};

}  // namespace penstock
