// The training program: one process that trains, or one that starts those that do.
#include "train/run/program.h"

#include <cstdlib>
#include <iostream>

#include "core/limits.h"
#include "core/text.h"
#include "train/comm/comm.h"
#include "train/launch.h"
#include "train/models/model.h"
#include "train/out_of_memory.h"
#include "train/run/run.h"
#include "train/strategies/strategy.h"

namespace penstock {
namespace {

/// LibTorch's settings for bits that can be had again: they must stand before its first work.
void prepare_libtorch() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // cuBLAS then sums in a fixed order
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // every tensor here is written before it is read
}

/// Whether the system gives the threads of all ranks: a rank that cannot start one of Gloo's aborts or waits for the
/// others.
void require_threads_of_ranks(const Setup& setup) {
  const auto& options = setup.options;
  const int ranks = setup.world.rendezvous.world_size, loaders = setup.data.test ? 2 : 1;
  require_threads(concat("--nproc ", ranks),
                  ranks * (1 + intra_op_threads(options.threads) + loaders * options.workers + kCommunicatorThreads),
                  "fewer ranks, --threads or --workers");
}

int spawn(const Setup& setup, const TrainOptions& given, std::vector<std::string> arguments) {
  require_threads_of_ranks(setup);
  if (given.out.empty()) {  // the default holds the time, which every rank would read for itself
    arguments.push_back("--out");
    arguments.push_back(setup.options.out.string());
  }
  return spawn_ranks(setup.world.rendezvous.world_size, arguments);
}

}  // namespace

std::vector<std::string> arch_names() { return ModelRegistry::names(); }
std::vector<std::string> mode_names() { return StrategyRegistry::names(); }

int run_program(const TrainOptions& options, const std::vector<std::string>& arguments) {
  prepare_libtorch();
  Setup setup = naming_memory("--arch " + options.arch, "its weights", "a smaller one", [&] {
    return set_up(options, [](const std::string& line) { std::cout << line << std::endl; });
  });
  if (setup.world.is_spawner) return spawn(setup, options, arguments);
  // On a machine without a CUDA driver Kineto prints an error that says no more than that.
  if (setup.device == torch::kCPU) setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
  const std::string advice =
      concat("a smaller one or a smaller --arch than ", options.arch, options.is_resident ? ", or no --resident" : "");
  return naming_memory(concat("--batch-size ", setup.options.batch_size), "a step", advice,
                       [&] { return run_rank(setup); });
}

}  // namespace penstock
