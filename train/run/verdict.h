// Verdict: what limited a run, what other workers would give, and how wrong an earlier run's prediction of it was.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/limit.h"
#include "train/run/setup.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace penstock {

/// What the model of limit.h needs, from what this rank measured. `run` comes with everything but times of a step.
Observed observe(Observed run, const StepTimes& step, const LoaderStatistics& loader, int64_t step_count);

/// The same for a step of all ranks: the slowest loader's times; and where this rank waited for others that waited for
/// their loaders, that was loading too.
Observed over_ranks(Observed mine, const std::vector<Observed>& all);

/// "NVIDIA H200"; "" for the CPU, or where CUDA does not say.
std::string gpu_name(const torch::Device& device);

/// All that a run's speed depends on but the number of workers: the options that matter, ranks, cores, processor, GPU.
nlohmann::json configuration_of(const Setup& setup);

/// `bound`, `sentence`, the measured times and `predictions`: images/s for every number of workers up to the cores' and
/// 8.
nlohmann::ordered_json limit_json(const Observed& run, const Limit& limit);

/// What an earlier run said of this one.
struct PastPrediction {
  std::filesystem::path summary;
  int workers = 0;               ///< Its own.
  double images_per_second = 0;  ///< Predicted for this run's workers.
  double low = 0, high = 0;      ///< The range that the prediction stood for; equal where it gave none.
};

/// The newest summary.json of a run beside `out` with an equal configuration and another number of workers. `say` gets
/// a line for a summary that cannot be compared because it is of another format or damaged.
std::optional<PastPrediction> find_past_prediction(const std::filesystem::path& out,
                                                   const nlohmann::json& configuration, int workers,
                                                   const std::function<void(const std::string&)>& say);

/// `prediction: runs/a (1 worker) said 14,300 images/s for 2 workers; it was 13,900: 2.9 % too much`.
std::string comparison_text(const PastPrediction& past, const Observed& run);

}  // namespace penstock
