// train plan-modes: the modes that can run, what must be measured for them, and what comes of it.
#include "tools/train/plan/plan_modes.h"

#include <torch/types.h>

#include <algorithm>
#include <iostream>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "tools/train/plan/measure.h"
#include "tools/train/plan/options.h"
#include "tools/train/plan/plan_table.h"
#include "train/launch/command.h"
#include "train/launch/environment.h"
#include "train/nn/model.h"
#include "train/parallel/strategy/strategy.h"
#include "train/run/open_run.h"
#include "train/run/program.h"
#include "train/run/run_checks.h"

namespace penstock {
namespace {

struct Plan {
  PlanRow row;
  detail::PlannedMode planned;
};

/// The mode over so many ranks of this machine, as a run would resolve it. Throws config_error where there is no such
/// run.
Plan plan_of(const PlanOptions& options, const std::string& mode, int ranks) {
  TrainOptions train = options.train;
  train.mode = mode;
  World world;
  world.plan = plan_of(train, ranks, torch::kCPU, ranks);
  world.ranks_sharing_cores = world.local_world_size = ranks;
  if (train.batch_size < world.plan.mesh.data)
    throw config_error(concat("--batch-size is ", train.batch_size, "; expected ", world.plan.mesh.data, " or more"));
  resolve_threads(train, world, torch::kCPU);
  const auto optimizer = make_optimizer(
      {.parameters = {},
       .options = {.learning_rate = 0, .momentum = train.momentum, .weight_decay = 0, .spec = train.optimizer.text()}});
  return {{.mode = mode, .ranks = ranks, .threads = train.threads, .workers = train.workers},
          {.plan = world.plan,
           .batch_size = train.batch_size,
           .threads = train.threads,
           .workers = train.workers,
           .prefetch = train.prefetch,
           .optimizer_slots = static_cast<int>(optimizer->state().slots.size()),
           .emulation = train.emulation}};
}

using Log = std::function<void(const std::string&)>;

std::string left_out_text(const std::string& mode, int ranks, const Error& error) {
  return concat("left out: ", mode, " with ", count_text(ranks, "rank"), ": ", error.what());
}

/// Every combination that there is; `log` hears of the others.
std::vector<Plan> plans_of(const PlanOptions& options, const Log& log) {
  std::vector<Plan> plans;
  for (const auto& mode : options.modes)
    for (const int ranks : options.ranks) {
      if ((usual_ranks(mode) == 1) != (ranks == 1)) continue;  // as in a study
      try {
        plans.push_back(plan_of(options, mode, ranks));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kConfig) throw;
        log(left_out_text(mode, ranks, error));
      }
    }
  if (plans.empty())
    throw config_error(concat("--modes ", join(options.modes, ","),
                              ": no mode can run with the ranks of --nproc; expected 1 for single, 2 or more for the ",
                              "others"));
  return plans;
}

/// Without those of which every step has a row that the model cannot be trained on; `log` hears of them.
void check_rows(std::vector<Plan>& plans, const PlanOptions& options, const Setup& setup, const Log& log) {
  std::erase_if(plans, [&](const Plan& plan) {
    try {
      problem_of_single_rows(setup, parse_spec("mode", plan.row.mode), plan.planned.plan);
      return false;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig) throw;
      log(left_out_text(plan.row.mode, plan.row.ranks, error));
      return true;
    }
  });
  if (plans.empty())
    throw config_error(concat("--modes ", join(options.modes, ","), ": no mode can train this model with --batch-size ",
                              options.train.batch_size, "; expected a larger one"));
}

/// What the predictions need. Of more micro-batches than four, four tell as much.
PlanNeeds needs_of(const std::vector<Plan>& plans, const Model& model) {
  const auto facts = detail::facts_of(model);
  constexpr int kMostMicroBatches = 4;
  PlanNeeds needs;
  auto& [passes, compressions] = needs;
  for (const auto& [row, planned] : plans) {
    const auto shape = detail::shape_of_step(planned, facts, nullptr);
    if (!shape) continue;
    const auto& compression = shape->plan.compression;
    if (!compression.name.empty() &&
        std::find(compressions.begin(), compressions.end(), compression) == compressions.end())
      compressions.push_back(compression);
    if (!planned.emulation.learns()) continue;
    const auto kind = shape->pass_kind(planned.threads);
    const detail::PassRequest request{.rows = shape->rows,
                                      .threads = kind.threads,
                                      .micro_batches = std::min(shape->plan.schedule.micro_batches, kMostMicroBatches),
                                      .splits = kind.splits,
                                      .syncs = kind.syncs};
    const auto known = std::find_if(passes.begin(), passes.end(), [&](const auto& one) {
      return one.rows == request.rows && one.threads == request.threads && one.syncs == request.syncs &&
             (one.micro_batches > 1) == (request.micro_batches > 1);
    });
    if (known == passes.end()) {
      passes.push_back(request);
    } else {
      known->micro_batches = std::max(known->micro_batches, request.micro_batches);
      known->splits |= request.splits;
    }
  }
  return needs;
}

/// The options of a run that opens the data and the model: alone, or as one of the ranks that measure.
TrainOptions options_of_setup(const PlanOptions& options) {
  TrainOptions train = options.train;
  if (options.measured.empty()) return train;
  train.mode = "ddp";
  train.threads = 1;  // passes set it
  train.workers = 0;
  return train;
}

void predict_all(std::vector<Plan>& plans, const PlanOptions& options, const Setup& setup,
                 const detail::MachineCosts& costs) {
  const auto facts = detail::facts_of(*setup.model);
  for (auto& [row, planned] : plans) {
    if (planned.emulation.learns())
      planned.evaluated_rows = evaluated_rows(setup, planned.batch_size, planned.plan.mesh.data);
    const auto shape = detail::shape_of_step(planned, facts, &costs);
    if (!shape) {
      std::cerr << concat("plan-modes: no prediction of ", row.mode, " with ", count_text(row.ranks, "rank"), ": ",
                          detail::why_unpredictable(planned))
                << std::endl;
      continue;
    }
    row.prediction = detail::predict(planned, *shape, costs, facts.parameters);
    row.fits = !options.memory_bytes || fullest_rank_bytes(*row.prediction) <= *options.memory_bytes;
  }
  std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    if (!a.row.prediction || !b.row.prediction) return a.row.prediction.has_value() > b.row.prediction.has_value();
    return a.row.prediction->step_seconds < b.row.prediction->step_seconds;
  });
}

/// The command that trains so, and at its end says how far off this was.
std::string command_of(const PlanOptions& options, const PlanRow& row) {
  auto words = options.passed_on;
  words.insert(words.end(), {"--mode", row.mode, "--nproc", std::to_string(row.ranks)});
  words.insert(words.end(), {"--predicted-step", printed("%.0fus", 1e6 * row.prediction->step_seconds)});
  std::string text = "train";
  for (const auto& word : words) text += " " + shell_quoted(word);
  return text;
}

int report(const PlanOptions& options, const std::vector<Plan>& plans, const detail::MachineCosts& costs) {
  std::vector<PlanRow> rows;
  for (const auto& plan : plans) rows.push_back(plan.row);
  if (!options.json.empty()) write_text(options.json, plan_json(rows, costs.setting));
  std::cout << concat("measured: ", costs.setting, ", ", count_text(static_cast<uint64_t>(costs.cores), "core"),
                      options.train.emulation.is_on() ? " [emulated]" : "", "\n")
            << plan_table(rows, options.train.batch_size, options.memory_bytes.has_value());
  for (const auto& row : rows) {
    if (!row.prediction || !row.fits) continue;
    std::cout << concat("fastest", options.memory_bytes ? " of those that fit" : "", ": ", row.mode, " with ",
                        count_text(static_cast<uint64_t>(row.ranks), "rank"), ", ",
                        step_text(row.prediction->step_seconds), " per step\n")
              << command_of(options, row) << std::endl;
    return 0;
  }
  const double least = [&] {
    double bytes = 0;
    for (const auto& row : rows)
      if (row.prediction && (bytes == 0 || fullest_rank_bytes(*row.prediction) < bytes))
        bytes = fullest_rank_bytes(*row.prediction);
    return bytes;
  }();
  std::cout << (least > 0
                    ? concat("none fits; the smallest needs ", byte_text(static_cast<uint64_t>(least)), " per rank")
                    : std::string("no prediction for any of these modes"))
            << std::endl;
  return 1;
}

}  // namespace

int run_plan_modes(int argc, char** argv) {
  const PlanOptions options = parse_plan_options(argc, argv);
  const bool measures = !options.measured.empty();
  if (const auto launched = rank_from_environment(""); launched && !measures)
    throw config_error(concat("plan-modes: started by ", launched->launcher, "; expected to be started by hand"));
  const Log log = [&](const std::string& line) {
    if (!measures) std::cerr << "plan-modes: " << line << std::endl;
  };
  auto plans = plans_of(options, log);
  Setup setup = set_up(options_of_setup(options), [&](const std::string& line) {
    if (!measures) std::cerr << line << std::endl;
  });
  check_rows(plans, options, setup, log);
  if (measures) return run_measuring_rank(options, setup, needs_of(plans, *setup.model));
  const auto costs = options.machine.empty()
                         ? measure_machine(options, {argv, argv + argc})
                         : detail::costs_from_json(read_text(options.machine), options.machine.string());
  if (costs.activation_bytes.size() != setup.model->blocks().size())
    throw config_error(concat("--machine ", options.machine.string(), ": is of ", costs.setting, ", with ",
                              costs.activation_bytes.size(), " blocks; expected one of --arch ", setup.options.arch,
                              ", with ", setup.model->blocks().size()));
  if (!options.save_machine.empty()) write_text(options.save_machine, to_json(costs));
  predict_all(plans, options, setup, costs);
  return report(options, plans, costs);
}

}  // namespace penstock
