// Verdict: converts a run's times into those of the model, and compares with the summaries of other runs.
#include "train/run/verdict.h"

#ifdef PENSTOCK_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/machine.h"
#include "core/number_text.h"
#include "core/spec.h"
#include "core/text.h"
#include "loader/disk.h"
#include "train/flag_table.h"
#include "train/run/world.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Threads that compute together wait for the slowest one, and LibTorch's threads spin while they wait. If one of them
/// queues for a core, the step stands still and the others use processor time. Both are taken out of the step's own
/// times here.
void take_out_waits_of_helpers(double helpers_queued, double main_queued, ServiceTimes& times) {
  constexpr double kMost = 0.8;  // share of the step; the counters include the evaluations of the run
  if (helpers_queued <= 0) return;
  const double stalled = std::min(helpers_queued, kMost * times.update_ms);
  times.update_ms -= stalled;
  times.update_cpu_ms = std::max(times.update_ms, times.update_cpu_ms - stalled - main_queued);
}

}  // namespace

std::string gpu_name(const torch::Device& device) {
#ifdef PENSTOCK_HAS_CUDA
  cudaDeviceProp properties{};
  const int index = device.has_index() ? device.index() : 0;
  if (device.is_cuda() && cudaGetDeviceProperties(&properties, index) == cudaSuccess) return properties.name;
#endif
  return "";
}

Observed observe(Observed run, const StepTimes& step, const LoaderStatistics& loader, int64_t step_count) {
  LoaderStatistics::Worker all;
  for (const auto& worker : loader.workers) {
    all.busy_ms += worker.busy_ms;
    all.cpu_ms += worker.cpu_ms;
    all.queued_ms += worker.queued_ms;
    all.storage_ms += worker.storage_ms;
    all.storage_bytes += worker.storage_bytes;
  }
  const auto steps = static_cast<double>(std::max<int64_t>(step_count, 1));
  auto& times = run.times;
  run.step_count = step_count;
  run.step_ms = step.total();
  run.wait_ms = step[Phase::kWait];
  const double available_ms = run.step_ms * steps * static_cast<double>(loader.workers.size());
  run.loader_idle_share = available_ms > 0 ? std::clamp(1 - all.busy_ms / available_ms, 0.0, 1.0) : 0;
  times.communication_ms = step[Phase::kCommunication];
  // The kernel counts only the queueing of the whole step. It is divided between waiting and working in proportion to
  // their lengths. The phases of a device contain no queueing.
  const double running = run.step_ms > 0 && !times.is_async ? std::max(0.0, 1 - step.queued / run.step_ms) : 1;
  times.update_ms = (run.step_ms - run.wait_ms) * running;
  if (run.workers > 0 && !times.is_async) {
    // The training thread sleeps while it waits for a batch, so it queues only in the rest of its step, where it needs
    // the processor.
    const double updating = run.step_ms - run.wait_ms;
    const double own_cpu = std::max(0.0, step.process_cpu - all.cpu_ms / steps) / times.update_threads;
    times.update_ms = std::max(updating - step.queued, std::min(updating * running, own_cpu));
  }
  times.storage_ms = all.storage_ms / steps;
  run.storage_bytes = static_cast<double>(all.storage_bytes) / steps;
  if (run.workers == 0) {
    times.load_ms = times.is_async ? all.busy_ms / steps : run.wait_ms * running;
    times.storage_ms = std::min(times.storage_ms, times.load_ms);
    times.load_cpu_ms = times.load_ms - times.storage_ms;
  } else {
    times.load_cpu_ms = all.cpu_ms / steps;
    times.load_ms = std::max(times.load_cpu_ms + times.storage_ms, (all.busy_ms - all.queued_ms) / steps);
  }
  times.update_cpu_ms = std::max(0.0, step.process_cpu - times.load_cpu_ms);
  const double helpers_queued =
      times.update_threads > 1 ? run.process_queued_ms - step.queued - (run.workers > 0 ? all.queued_ms / steps : 0)
                               : 0;
  take_out_waits_of_helpers(std::max(0.0, helpers_queued), step.queued, times);
  // Without workers, the queueing of the training thread includes that of loading.
  run.queued_ms = step.queued + std::max(0.0, helpers_queued) + (run.workers > 0 ? all.queued_ms / steps : 0);
  run.busy_cores = run.step_ms > 0 ? step.busy_cores / run.step_ms : 0;
  if (loader.read.count > 0)
    run.image_bytes = static_cast<double>(loader.sample_bytes) / static_cast<double>(loader.read.count);
  return run;
}

Observed over_ranks(Observed mine, const std::vector<Observed>& all) {
  const auto count = static_cast<double>(all.size());
  double wait = mine.wait_ms, load_cpu = 0, update_cpu = 0, storage = 0, queued = 0;
  for (const auto& rank : all) {
    wait = std::max(wait, rank.wait_ms);
    mine.times.load_ms = std::max(mine.times.load_ms, rank.times.load_ms);
    load_cpu += rank.times.load_cpu_ms / count;
    update_cpu += rank.times.update_cpu_ms / count;
    storage += rank.times.storage_ms / count;
    queued += rank.queued_ms / count;
  }
  const double echo = std::min(wait - mine.wait_ms, mine.times.communication_ms);
  mine.wait_ms += echo;
  mine.times.communication_ms -= echo;
  mine.times.update_ms = std::max(0.0, mine.times.update_ms - echo);
  mine.times.load_cpu_ms = load_cpu;
  mine.times.update_cpu_ms = update_cpu;
  mine.times.storage_ms = std::min(storage, mine.times.load_ms);
  mine.queued_ms = queued;
  if (mine.step_ms <= 0) return mine;
  const double ranks = mine.times.ranks;
  mine.times.storage_readers = std::max(1.0, ranks * mine.times.storage_ms / mine.step_ms);
  mine.times.other_threads =
      other_threads(mine.busy_cores, ranks * (load_cpu + update_cpu) / mine.step_ms, ranks * queued / mine.step_ms);
  return mine;
}

void ask_storage(Observed& run, const Dataset& dataset, const RankShards& share) {
  constexpr double kWorthAsking = 0.05;  // share of a step
  if (run.times.storage_ms < kWorthAsking * run.step_ms) return;
  const auto rate = measure_disk(shard_files(dataset));
  settle_storage(run, rate ? rate->one : 0, rate ? rate->most : 0);
  run.coefficient_share = coefficient_share(dataset, share);
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

Json limit_json(const Observed& run, const Limit& limit) {
  const ServiceTimes& times = run.times;
  Json json{{"bound", name_of(limit.bound)},
            {"sentence", limit.sentence},
            {"emulated", run.is_emulated},
            {"best_workers", limit.best_workers},
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
            {"predictions", Json::array()}};
  for (const auto& one : limit.predictions) {
    json["predictions"].push_back(
        {{"workers", one.workers}, {"images_per_second", one.images_per_second}, {"low", one.low}, {"high", one.high}});
  }
  json["setting_predictions"] = Json::array();
  for (const auto& one : limit.setting_predictions)
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
  const nlohmann::json& limit = summary.at("limit");
  const bool is_workers = setting == "workers";
  const auto predictions =
      is_workers ? limit.at("predictions") : limit.value("setting_predictions", nlohmann::json::array());
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
                                                   const std::function<void(const std::string&)>& say) {
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
      std::ifstream file(path);
      const auto json = nlohmann::json::parse(file);
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
  if (other_count > 0) say(concat("prediction: ", other, ", not compared"));
  return newest;
}

std::string comparison_text(const PastPrediction& past, const Settings& settings, const Observed& run) {
  const double rate = run.images_per_second;
  const std::string range = past.high > past.low
                                ? concat(rate < past.low || rate > past.high ? ", outside" : ", within",
                                         " its range of ", rate_text(past.low), " to ", rate_text(past.high))
                                : std::string();
  const double error = run.images_per_second > 0 ? past.images_per_second / run.images_per_second - 1 : 0;
  return concat("prediction: ", past.summary.parent_path().string(), " (", text_of(past.setting, past.value), ") said ",
                rate_text(past.images_per_second), " for ", text_of(past.setting, settings.at(past.setting)),
                "; it was ", rate_text(run.images_per_second), ": ", percent_text(std::abs(error), 1),
                error > 0 ? " too much" : " too little", range, run.is_emulated ? " [emulated]" : "");
}

}  // namespace penstock
