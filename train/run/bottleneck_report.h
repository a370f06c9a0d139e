// BottleneckReport: what limited a run, how fast it would be with other numbers of workers, and how wrong an earlier
// run's prediction was.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "loader/bottleneck/observe.h"
#include "train/loop/training_loop.h"
#include "train/measure/bottleneck.h"
#include "train/run/run_folder.h"
#include "train/run/setup.h"

namespace penstock {

/// As observe() of loader/bottleneck/observe.h, for a step of a Recorder.
LoopMeasurement observe(LoopMeasurement run, const StepTimes& step, const LoaderStatistics& loader, int64_t step_count);

/// The name of the GPU, "NVIDIA H200"; "" for the CPU, or if CUDA does not give it.
std::string gpu_name(const torch::Device& device);

/// Everything that the speed of a run depends on, except the number of workers: the options that matter, ranks, cores,
/// processor, GPU.
nlohmann::json configuration_of(const Setup& setup);

/// `bound`, `sentence`, the measured times, `predictions`, which are images/s for each number of workers from 0 to the
/// number of cores, and at least to 8, and `setting_predictions`, which are those for other settings.
nlohmann::ordered_json bottleneck_json(const LoopMeasurement& run, const RunBottleneck& bottleneck);

/// Adds to `summary` what the ranks waited for each other, and returns the lines about it, each with `line_end`.
std::string add_waits(const RunMeasurement& run, const std::string& line_end, nlohmann::ordered_json& summary);

/// Adds to `summary` what --predicted-step said of a step, and returns the line about it: "prediction: a step takes
/// 123.0 ms; it took 127.0 ms (the prediction is 3 % too fast)"; "" where it said nothing.
std::string add_predicted_step(int64_t predicted_ns, double step_ms, nlohmann::ordered_json& summary);

/// Adds to `summary` what came from far away to this process since it began, and returns the line about it; "" where
/// nothing did.
std::string add_link(nlohmann::ordered_json& summary);

/// What predictions are made for: `workers`, `batch-size` and `micro-batches`, each with its value.
using Settings = std::map<std::string, int64_t>;

/// What an earlier run predicted for this one.
struct PastPrediction {
  std::filesystem::path summary;
  int64_t value = 0;             ///< The value of `setting` in the earlier run.
  double images_per_second = 0;  ///< Predicted for this run's value.
  double low = 0, high = 0;      ///< The range of the prediction; both equal if it gave none.
  std::string setting = "workers";
};

/// The prediction in the newest summary.json of a run in a folder beside `out` that has the same configuration and
/// another value of one of the settings. If summaries cannot be compared because they are of another format or damaged,
/// `log` gets one line about them.
std::optional<PastPrediction> find_past_prediction(const std::filesystem::path& out,
                                                   const nlohmann::json& configuration, const Settings& settings,
                                                   const std::function<void(const std::string&)>& log);

/// `prediction: runs/a (1 worker) said 14,300 images/s for 2 workers; it was 13,900 images/s: 2.9 % too much`.
std::string comparison_text(const PastPrediction& past, const Settings& settings, const LoopMeasurement& run);

}  // namespace penstock
