// train: packs where needed, starts ranks where needed, trains.
#include <cstdlib>
#include <iostream>

#include "tools/cli.h"
#include "tools/train/flags.h"
#include "tools/train/run.h"
#include "train/launch.h"

namespace {

using namespace penstock;

/// LibTorch's settings for bits that can be had again: they must stand before its first work.
void prepare_libtorch(const TrainOptions& options) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // cuBLAS sums in a fixed order
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // every tensor here is written before it is read
  if (options.threads > 0) torch::set_num_threads(options.threads);
}

int spawn(const Setup& setup, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  // The default holds the time, which every rank would read for itself.
  arguments.push_back("--out");
  arguments.push_back(setup.options.out.string());
  return spawn_ranks(setup.world.rendezvous.world_size, arguments);
}

int train(int argc, char** argv) {
  const TrainOptions options = parse_flags(argc, argv);
  prepare_libtorch(options);
  Setup setup = set_up(options, [](const std::string& line) { std::cout << line << std::endl; });
  if (setup.world.is_spawner) return spawn(setup, argc, argv);
  torch::set_num_threads(setup.options.threads);
  return run_rank(setup);
}

}  // namespace

int main(int argc, char** argv) {
  return penstock::run_tool("train", [&] { return train(argc, argv); });
}
