// The training program: a process that trains as one rank, or one that starts the ranks.
#include "train/run/program.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "core/error.h"
#include "core/limits.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/comm/comm.h"
#include "train/nn/model.h"
#include "train/options/check.h"
#include "train/options/options_file.h"
#include "train/parallel/plan/drawing.h"
#include "train/parallel/strategy/strategy.h"
#include "train/run/exact.h"
#include "train/run/open_run.h"
#include "train/run/rank_threads.h"
#include "train/run/report.h"
#include "train/run/run.h"
#include "train/run/run_checks.h"
#include "train/run/run_folder.h"
#include "train/run/spawner.h"
#include "train/run/world.h"
#include "train/tensor/short_message.h"

namespace penstock {
namespace {

/// Turns off c10d's log of failing connections, which has stack frames. c10d also throws these errors, and they are
/// then reported in one line. Gloo prints a line for each of three tries to connect again, all within a second.
void silence_c10d() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = static_cast<int>(c10::GLOG_FATAL);
  setenv("GLOO_DISABLE_CONNECTION_RETRIES", "1", /*overwrite=*/0);
}

/// Sets LibTorch to deterministic operations, so that a run can be repeated to the bit. This must be done before its
/// first operation.
void prepare_libtorch() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // so that cuBLAS sums in a fixed order
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // every tensor here is written before it is read
}

/// Throws unless the system gives enough threads for all ranks. A rank that cannot start one of Gloo's threads would
/// abort or wait for the others.
void require_threads_of_ranks(const Setup& setup) {
  const auto& options = setup.options;
  const int ranks = setup.world.local_world_size, loaders = setup.data.test ? 2 : 1;
  const Mesh& mesh = setup.world.plan.mesh;
  const int axes = mesh.data > 1 && mesh.pipe > 1 ? 3 : 1;  // of all ranks, and of each axis
  const int communicators = setup.world.has_rank_threads ? 0 : axes;
  require_threads(concat("--nproc ", ranks),
                  ranks * (1 + intra_op_threads(options.threads) + loaders * options.workers +
                           communicators * kCommunicatorThreads),
                  "fewer ranks, --threads or --workers");
}

/// What --dry-run prints. Opens no data.
std::string dry_text(const TrainOptions& options, const std::vector<std::string>& arguments) {
  check(options, arch_names(), mode_names(), optimizer_names());
  const World world = find_world(options, device_type(options));
  if (!world.is_spawner)
    throw config_error(concat("--dry-run with ", count_text(world.rendezvous.world_size, "rank"), " started by ",
                              world.launcher, ": there is nothing to start; expected --nproc or --hostfile"));
  return commands_text(options, world, arguments);
}

/// What --print-schedule prints.
std::string schedule_text(const TrainOptions& options) {
  check(options, arch_names(), mode_names(), optimizer_names());
  constexpr int kMostRanks = 4096;  // zb-v goes through 8 P^2 operations of P ranks: a second for 4,096
  const int ranks = options.nproc > 0 ? options.nproc : options.world_size;
  if (ranks > kMostRanks)
    throw config_error(concat("--print-schedule: of ", ranks, " ranks; expected ", kMostRanks, " or fewer"));
  const StepPlan plan = plan_of(options, ranks, device_type(options));
  if (!plan.has_stages())
    throw config_error(concat("--print-schedule with --mode ", options.mode,
                              ": every rank runs its rows forward and backward without waiting in between; expected a ",
                              "mode whose ranks hold stages of the model, such as pipeline"));
  if (options.prints_csv) return detail::csv_of(plan);
  return concat("mode ", options.mode, ": ", detail::drawing_of(plan));
}

template <class Registry>
std::string lines_of() {
  std::string lines;
  for (const auto& [name, entry] : Registry::entries()) lines += concat("\n  ", name, ": ", entry.help);
  return lines;
}

}  // namespace

std::vector<std::string> arch_names() { return ModelRegistry::names(); }
std::vector<std::string> mode_names() { return StrategyRegistry::names(); }

std::vector<std::string> modes_with(const std::string& key) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : StrategyRegistry::entries())
    if (std::find(entry.keys.begin(), entry.keys.end(), key) != entry.keys.end()) names.push_back(name);
  return names;
}

std::string mode_lines() { return lines_of<StrategyRegistry>(); }

std::vector<std::string> optimizer_names() { return OptimizerRegistry::names(); }

std::string optimizer_lines() {
  std::string lines;
  for (const auto& [name, entry] : OptimizerRegistry::entries())
    lines += concat("\n  ", name, ": ", entry.help, "; --lr is ", entry.traits.learning_rate, " by default");
  return lines;
}

std::string loss_lines() { return lines_of<LossRegistry>(); }

int usual_ranks(const std::string& mode) {
  TrainOptions options;
  options.mode = mode;
  return plan_of(options, /*ranks=*/0, /*device=*/std::nullopt).mesh.size();
}

int run_program(const TrainOptions& options, const std::vector<std::string>& arguments) {
  if (options.prints_config) {
    check(options, arch_names(), mode_names(), optimizer_names());
    TrainOptions printed = options;
    printed.prints_config = false;
    std::cout << to_json(printed) << std::flush;
    return 0;
  }
  if (options.prints_schedule) {
    std::cout << schedule_text(options) << std::flush;
    return 0;
  }
  if (options.exact_shards > 0)
    for (const auto& line : pin_kernels(options)) std::cout << line << std::endl;
  prepare_libtorch();
  if (options.only_prints_commands) {
    std::cout << dry_text(options, arguments) << std::flush;
    return 0;
  }
  Setup setup = set_up(options, [](const std::string& line) { std::cout << line << std::endl; });
  leave_out_single_rows(setup);
  if (setup.world.is_spawner || setup.world.has_rank_threads) require_threads_of_ranks(setup);
  if (options.only_checks) {
    if (setup.world.rendezvous.rank == 0) std::cout << opening_text(setup, "") << "checked" << std::endl;
    return 0;
  }
  if (setup.has_new_folder && setup.world.rendezvous.rank == 0) make_new_folder(setup.options.out);
  if (setup.world.is_spawner) return spawn(setup, options, arguments);
  if (setup.world.rendezvous.world_size > 1) silence_c10d();
  // Without a CUDA driver Kineto prints an error that says only that there is none.
  if (setup.device == torch::kCPU) setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
  try {
    return setup.world.has_rank_threads ? run_rank_threads(setup) : run_rank(setup);
  } catch (const c10::Error& error) {
    throw std::runtime_error(short_message(error));  // without LibTorch's stack frames
  }
}

}  // namespace penstock
