// Measuring: the loader by rank 0, everything else by detail::probe().
#include "tools/train/plan/measure.h"

#include <ATen/Context.h>
#include <c10/util/Logging.h>

#include <algorithm>

#include "core/atomic_file.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/regular_file.h"
#include "core/temporary.h"
#include "core/text.h"
#include "loader/batch/loader.h"
#include "train/comm/comm.h"
#include "train/launch/spawn.h"
#include "train/loop/evaluate.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

/// Seconds of one worker for a row.
detail::Work measure_loader(const Setup& setup) {
  constexpr int64_t kMostRows = 256;
  constexpr double kEnough = 0.5;  // seconds
  const auto& options = setup.options;
  const auto rows = std::min<int64_t>({kMostRows, options.batch_size, static_cast<int64_t>(setup.data.train->size())});
  Loader loader(setup.data.train, *setup.pipeline,
                {.workers = 0,
                 .prefetch = 1,
                 .batch_size = rows,
                 .rank = 0,
                 .world_size = 1,
                 .seed = options.seed,
                 .epoch_count = 1,
                 .layout = *options.layout,
                 .decode = *options.decode,
                 .dct_scale = training_dct_scale(options),
                 .columns = setup.loss->target().columns});
  loader.start_epoch(0);
  loader.next();  // the first one opens files
  const int64_t start_ns = now_ns();
  int64_t made = 0;
  while (ms_since(start_ns) < 1e3 * kEnough) {
    const auto batch = loader.next();
    if (!batch) break;
    made += batch->count();
  }
  const double seconds = made > 0 ? 1e-3 * ms_since(start_ns) / static_cast<double>(made) : 0;
  return detail::Work::of(seconds);
}

}  // namespace

int64_t evaluated_rows(const Setup& setup, int64_t batch_size, int ranks) {
  if (!setup.data.test || setup.data.test->size() == 0) return 0;
  const int64_t pixels = int64_t{setup.shape.height} * setup.shape.width;
  return std::max((batch_size + ranks - 1) / ranks,
                  eval_rows(pixels, static_cast<int64_t>(setup.data.test->size()), ranks));
}

detail::MachineCosts measure_machine(const PlanOptions& options, const std::vector<std::string>& arguments) {
  const ScratchFolder folder("plan");
  const auto file = folder.path() / "machine.json";
  auto words = arguments;
  words.insert(words.end(), {"--measure-into", file.string()});
  const int most = *std::max_element(options.ranks.begin(), options.ranks.end());
  const int ranks = std::max(2, std::min(2 * usable_cores(), most));
  const auto end = run_ranks(local_ranks(ranks, words));
  if (end.code != 0) throw device_error(concat("plan-modes: measuring has failed: ", end.cause));
  return detail::costs_from_json(read_text(file), file.string());
}

namespace {

/// As a run does it before its first operation: c10d throws what it would log, and operations are deterministic.
void prepare_libtorch() {
  FLAGS_caffe2_log_level = static_cast<int>(c10::GLOG_FATAL);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

}  // namespace

int run_measuring_rank(const PlanOptions& options, Setup& setup, const PlanNeeds& needs) {
  prepare_libtorch();
  const auto comm = make_comm(setup.world.rendezvous, torch::kCPU, setup.options.dist_backend);
  comm->at_step(1);
  const auto& shape = setup.shape;
  auto costs = detail::probe(*comm, *setup.model, *setup.step_options.loss,
                             {.passes = needs.passes,
                              .compressions = needs.compressions,
                              .picture = {shape.channels, shape.height, shape.width},
                              .outputs = shape.classes,
                              .optimizer = optimizer_options(setup.options),
                              .evaluated_rows = evaluated_rows(setup, setup.options.batch_size, 1)});
  if (comm->rank() == 0) {
    costs.load = measure_loader(setup);
    costs.cores = usable_cores();
    costs.setting = concat(setup.options.arch, ", ", shape.channels, " x ", shape.height, " x ", shape.width, ", ",
                           setup.options.optimizer, ", on ", processor_name());
    write_text(options.measured, to_json(costs));
  }
  comm->barrier();
  return 0;
}

}  // namespace penstock
