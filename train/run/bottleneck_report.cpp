// BottleneckReport: converts a run's times into those of the model, and compares with the summaries of other runs.
#include "train/run/bottleneck_report.h"

#ifdef PENSTOCK_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include <torch/version.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/spec.h"
#include "core/text.h"
#include "loader/far/link_json.h"
#include "train/options/flag_table.h"
#include "train/options/options_file.h"
#include "train/run/world.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

}  // namespace

std::string gpu_name(const torch::Device& device) {
#ifdef PENSTOCK_HAS_CUDA
  cudaDeviceProp properties{};
  const int index = device.has_index() ? device.index() : 0;
  if (device.is_cuda() && cudaGetDeviceProperties(&properties, index) == cudaSuccess) return properties.name;
#endif
  return "";
}

LoopMeasurement observe(LoopMeasurement run, const StepTimes& step, const LoaderStatistics& loader,
                        int64_t step_count) {
  const MeasuredStep measured{.total_ms = step.total(),
                              .wait_ms = step[Phase::kWait],
                              .communication_ms = step[Phase::kCommunication],
                              .process_cpu_ms = step.process_cpu,
                              .queued_ms = step.queued,
                              .busy_cores_ms = step.busy_cores};
  return observe(std::move(run), measured, loader, step_count);
}

nlohmann::json configuration_of(const Setup& setup) {
  auto json = nlohmann::json::parse(to_json(setup.options));
  for (const Flag& flag : flag_table())
    if (!flag.uses.affects_speed) json.erase(flag.name);
  json["ranks-sharing-cores"] = setup.world.ranks_sharing_cores;
  json["cores"] = usable_cores();
  json["libtorch"] = TORCH_VERSION;
  json["processor"] = processor_name();
  if (const auto gpu = gpu_name(rank_device(setup.options, setup.world)); !gpu.empty()) json["gpu"] = gpu;
  json["samples"] = setup.data.train->size();
  return json;
}

Json bottleneck_json(const LoopMeasurement& run, const RunBottleneck& bottleneck) {
  const StepCosts& times = run.times;
  Json json{{"bound", name_of(bottleneck.bound)},
            {"sentence", bottleneck.sentence},
            {"emulated", run.is_emulated},
            {"best_workers", bottleneck.best_workers},
            {"wait_share", run.step_ms > 0 ? run.wait_ms / run.step_ms : 0},
            {"loader_idle_share", run.loader_idle_share},
            {"service_ms",
             {{"load", times.load_ms},
              {"load_cpu", times.load_cpu_ms},
              {"update", times.update_ms},
              {"update_cpu", times.update_cpu_ms},
              {"update_threads", times.update_threads},
              {"storage", times.storage_ms},
              {"communication", times.communication_ms}}},
            {"cores", times.cores},
            {"ranks", times.ranks},
            {"other_cores", other_cores(run)},
            {"storage",
             {{"bytes_per_image", run.image_bytes},
              {"bytes_per_second", run.disk_bytes_per_second},
              {"gain_of_more_readers", times.storage_gain},
              {"bytes_per_step", run.storage_bytes},
              {"busy_ms", times.storage_busy_ms}}},
            {"link",
             {{"bytes_per_second", run.link_bytes_per_second},
              {"bytes_per_step", run.link_bytes},
              {"cache_share", run.link_bytes > 0 ? run.cache_share : 1.0},
              {"busy_ms", times.link_busy_ms}}},
            {"predictions", Json::array()}};
  for (const auto& one : bottleneck.predictions) {
    json["predictions"].push_back(
        {{"workers", one.workers}, {"images_per_second", one.images_per_second}, {"low", one.low}, {"high", one.high}});
  }
  json["link_predictions"] = Json::array();
  for (const auto& one : bottleneck.link_predictions) {
    Json prediction{{"images_per_second", one.images_per_second}};
    if (one.cache_bytes > 0)
      prediction["cache_bytes"] = one.cache_bytes;
    else
      prediction["link_factor"] = one.link_factor;
    json["link_predictions"].push_back(std::move(prediction));
  }
  json["setting_predictions"] = Json::array();
  for (const auto& one : bottleneck.setting_predictions)
    json["setting_predictions"].push_back({{"setting", one.setting},
                                           {"value", one.value},
                                           {"images_per_second", one.images_per_second},
                                           {"low", one.low},
                                           {"high", one.high}});
  return json;
}

namespace {

/// A configuration without the settings in it. mp is a pipeline of one micro-batch.
nlohmann::json without_settings(nlohmann::json configuration) {
  configuration.erase("batch-size");
  if (!configuration.contains("mode")) return configuration;
  const Spec mode = parse_spec("mode", configuration["mode"].get<std::string>()).without("micro-batches");
  configuration["mode"] = mode.name() == "mp" ? "pipeline" + mode.text().substr(2) : mode.text();
  return configuration;
}

Settings settings_of(const nlohmann::json& summary) {
  return {{"workers", summary.at("workers").get<int64_t>()},
          {"batch-size", summary.value("batch_size", int64_t{0})},
          {"micro-batches", summary.value("micro_batches", int64_t{1})}};
}

/// The setting that alone has another value; "" if there is none or there are several.
std::string only_difference(const Settings& one, const Settings& other) {
  std::string name;
  for (const auto& [setting, value] : one) {
    if (other.at(setting) == value) continue;
    if (!name.empty()) return "";
    name = setting;
  }
  return name;
}

/// What `summary` predicts for this value of the setting.
std::optional<PastPrediction> prediction_in(const nlohmann::json& summary, const std::string& setting, int64_t value) {
  const nlohmann::json& bottleneck = summary.at("limit");
  const bool is_workers = setting == "workers";
  const auto predictions =
      is_workers ? bottleneck.at("predictions") : bottleneck.value("setting_predictions", nlohmann::json::array());
  for (const auto& one : predictions) {
    if (!is_workers && one.at("setting") != setting) continue;
    if (one.at(is_workers ? "workers" : "value") != value) continue;
    const auto rate = one.at("images_per_second").get<double>();
    return PastPrediction{
        {}, settings_of(summary).at(setting), rate, one.value("low", rate), one.value("high", rate), setting};
  }
  return std::nullopt;
}

/// "2 workers", "-b 256", "micro-batches=8".
std::string text_of(const std::string& setting, int64_t value) {
  if (setting == "workers") return count_text(static_cast<uint64_t>(value), "worker");
  return setting == "batch-size" ? concat("-b ", value) : concat(setting, "=", value);
}

}  // namespace

std::optional<PastPrediction> find_past_prediction(const fs::path& out, const nlohmann::json& configuration,
                                                   const Settings& settings,
                                                   const std::function<void(const std::string&)>& log) {
  const auto wanted = without_settings(configuration);
  std::optional<PastPrediction> newest;
  fs::file_time_type newest_time;
  std::string other;  // why the first of the summaries that cannot be compared cannot
  int other_count = 0;
  const auto skip = [&](const std::string& why) {
    if (other_count++ == 0) other = why;
  };
  const fs::path own = out.has_filename() ? out : out.parent_path();  // "runs/b/" becomes "runs/b"
  std::error_code failure;  // a folder that cannot be listed has nothing to compare with
  fs::directory_iterator entries(fs::absolute(own).lexically_normal().parent_path(), failure);
  for (; !failure && entries != fs::directory_iterator(); entries.increment(failure)) {
    const auto& entry = *entries;
    std::error_code gone;  // a run that is removed meanwhile does not count
    // The path begins as the user wrote OUT, because a bare name could be in any folder.
    const fs::path path = own.parent_path() / entry.path().filename() / "summary.json";
    if (!fs::is_regular_file(path, gone) || fs::equivalent(entry.path(), out, gone)) continue;
    try {
      const auto json = nlohmann::json::parse(read_text(path));
      if (const int format = json.value("format", 1); format != kSummaryFormat) {
        skip(concat(path.string(), " is of format ", format, "; expected ", kSummaryFormat));
        continue;
      }
      if (!json.contains("limit") || without_settings(json.at("configuration")) != wanted) continue;
      const std::string setting = only_difference(settings, settings_of(json));
      const auto time = fs::last_write_time(path, gone);
      if (setting.empty() || gone || (newest && time <= newest_time)) continue;
      auto found = prediction_in(json, setting, settings.at(setting));
      if (!found) continue;
      newest = std::move(found);
      newest->summary = path;
      newest_time = time;
    } catch (const std::exception& error) {
      skip(concat(path.string(), ": ", shortened(error.what()), "; expected a run's summary"));
    }
  }
  if (other_count > 1) other += concat(" (and ", other_count - 1, " more like it)");
  if (other_count > 0) log(concat("prediction: ", other, ", not compared"));
  return newest;
}

std::string add_waits(const RunMeasurement& run, const std::string& line_end, nlohmann::ordered_json& summary) {
  const ParallelRun& parallel = run.parallel;
  std::string text;
  summary["micro_batches"] = parallel.micro_batches;
  if (run.step_count > 0 && parallel.predicted_bubble > 0) {
    const double measured = bubble_share(parallel.ranks);
    summary["bubble"] = {{"measured", measured}, {"predicted", parallel.predicted_bubble}};
    text +=
        concat("bubble: ranks waited ", percent_text(measured), " of the time for their neighbours; ",
               percent_text(parallel.predicted_bubble), " is the bubble of stages that take equally long", line_end);
  }
  if (const auto sums = timed_sums(parallel)) {
    summary["hidden_share"] = sums->hidden_share;
    text += printed("communication: %.1f ms per step, hidden share %.2f", sums->all_ms, sums->hidden_share) + line_end;
  }
  if (const auto slow = slow_rank(parallel); slow && run.step_count > 0) {
    summary["slow_rank"] = {{"rank", slow->rank}, {"factor", slow->factor}, {"cause", slow->cause}};
    text += to_text(*slow) + line_end;
  }
  return text;
}

std::string add_predicted_step(int64_t predicted_ns, double step_ms, nlohmann::ordered_json& summary) {
  if (predicted_ns == 0 || step_ms <= 0) return "";
  const double predicted_ms = ms_of(predicted_ns), error = predicted_ms / step_ms - 1;
  summary["predicted_step"] = {{"ms", predicted_ms}, {"measured_ms", step_ms}, {"error", error}};
  return printed("prediction: a step takes %.3g ms; it took %.3g ms (the prediction is %.0f %% too %s)\n", predicted_ms,
                 step_ms, 100 * std::abs(error), error < 0 ? "fast" : "slow");
}

std::string add_link(nlohmann::ordered_json& summary) {
  const LinkStats link = link_stats();
  if (!link.is_used()) return "";
  summary["link"] = nlohmann::ordered_json::parse(link_json(link));
  return link_text(link) + "\n";
}

std::string comparison_text(const PastPrediction& past, const Settings& settings, const LoopMeasurement& run) {
  return promise_text(concat(past.summary.parent_path().string(), " (", text_of(past.setting, past.value), ")"),
                      text_of(past.setting, settings.at(past.setting)),
                      {.images_per_second = past.images_per_second, .low = past.low, .high = past.high}, run);
}

}  // namespace penstock
