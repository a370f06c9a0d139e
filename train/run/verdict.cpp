// Verdict: from a run's times to the model's, and to the summaries of other runs.
#include "train/run/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "core/error.h"
#include "core/text.h"
#include "train/run/world.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Options that change neither what a step costs nor what a batch costs.
constexpr std::array kIrrelevant{"out",        "workers",    "cache",        "epochs", "save-every", "resume",
                                 "pretrained", "print-freq", "evaluate",     "seed",   "schedule",   "eval-each-epoch",
                                 "lr",         "momentum",   "weight-decay", "profile"};

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "";
}

double worker_cpu_ms(const LoaderStatistics& statistics) {
  double total = 0;
  for (const auto& worker : statistics.workers) total += worker.cpu_ms;
  return total;
}

double idle_share(const LoaderStatistics& statistics) {
  double idle = 0, busy = 0;
  for (const auto& worker : statistics.workers) {
    idle += worker.idle_ms;
    busy += worker.read_ms + worker.plan_ms + worker.decode_ms + worker.render_ms;
  }
  return idle + busy > 0 ? std::clamp(idle / (idle + busy), 0.0, 1.0) : 0;
}

std::string workers_text(int workers) { return concat(workers, workers == 1 ? " worker" : " workers"); }

}  // namespace

Observed observe(const Setup& setup, const TrainResult& result) {
  const StepTimes& step = result.a_step;
  const double wait = step[Phase::kWait], queued = std::min(step.queued, step.total());
  Observed run;
  run.workers = setup.options.workers;
  run.step = step.total();
  run.wait = wait;
  run.loader_idle = idle_share(result.loader);
  run.images_per_second = result.images_per_second;
  run.is_emulated = setup.options.is_emulated();
  run.times.cores = usable_cores();
  run.times.ranks = setup.world.local_world_size;
  run.times.communication = step[Phase::kCommunication];
  if (run.workers == 0) {
    // One thread does both, so what it waited for a core is dealt to both by their lengths.
    const double running = run.step > 0 ? 1 - queued / run.step : 1;
    run.times.load = wait * running;
    run.times.update = (run.step - wait) * running;
    run.times.update_cpu = std::max(0.0, step.process_cpu - run.times.load);
    return run;
  }
  const auto batches = static_cast<double>(std::max<int64_t>(result.step_count, 1));
  run.times.load = worker_cpu_ms(result.loader) / batches;
  run.times.update = std::max(run.step - wait - queued, 0.0);
  run.times.update_cpu = std::max(0.0, step.process_cpu - run.times.load);
  return run;
}

nlohmann::json configuration_of(const Setup& setup) {
  auto json = nlohmann::json::parse(to_json(setup.options));
  for (const char* key : kIrrelevant) json.erase(key);
  json["ranks-a-machine"] = setup.world.local_world_size;
  json["cores"] = usable_cores();
  json["processor"] = processor_name();
  json["samples"] = setup.data.train->size();
  return json;
}

Json limit_json(const Observed& run, const Limit& limit) {
  const ServiceTimes& times = run.times;
  Json json{{"bound", name_of(limit.bound)},
            {"sentence", limit.sentence},
            {"emulated", run.is_emulated},
            {"best_workers", limit.best_workers},
            {"wait_share", run.step > 0 ? run.wait / run.step : 0},
            {"loader_idle_share", run.loader_idle},
            {"service_ms",
             {{"load", times.load},
              {"update", times.update},
              {"update_cpu", times.update_cpu},
              {"communication", times.communication}}},
            {"cores", times.cores},
            {"ranks", times.ranks},
            {"predictions", Json::array()}};
  const double now = predicted_step_ms(times, run.workers);
  for (int workers = 0; workers <= std::max({run.workers, times.cores, 8}); ++workers) {
    const double step = predicted_step_ms(times, workers);
    json["predictions"].push_back(
        {{"workers", workers}, {"images_per_second", step > 0 ? run.images_per_second * now / step : 0}});
  }
  return json;
}

std::optional<PastPrediction> find_past_prediction(const fs::path& out, const nlohmann::json& configuration,
                                                   int workers, const std::function<void(const std::string&)>& say) {
  std::optional<PastPrediction> newest;
  fs::file_time_type newest_time;
  std::string other;  // of the first summary that cannot be compared
  int other_count = 0;
  const auto skip = [&](const std::string& why) {
    if (other_count++ == 0) other = why;
  };
  std::error_code failure;  // a folder that cannot be listed holds nothing to compare with
  for (const auto& entry : fs::directory_iterator(fs::absolute(out).lexically_normal().parent_path(), failure)) {
    const fs::path path = entry.path() / "summary.json";
    if (!fs::is_regular_file(path, failure) || fs::equivalent(entry.path(), out, failure)) continue;
    try {
      std::ifstream file(path);
      const auto json = nlohmann::json::parse(file);
      if (const int format = json.value("format", 1); format != kSummaryFormat) {
        skip(concat(path.string(), " is of format ", format, "; expected ", kSummaryFormat));
        continue;
      }
      if (!json.contains("limit") || json.at("configuration") != configuration || json.at("workers") == workers)
        continue;
      const auto time = fs::last_write_time(path);
      if (newest && time <= newest_time) continue;
      for (const auto& one : json.at("limit").at("predictions")) {
        if (one.at("workers") != workers) continue;
        newest = {path, json.at("workers").get<int>(), one.at("images_per_second").get<double>()};
        newest_time = time;
      }
    } catch (const nlohmann::json::exception& error) {
      skip(concat(path.string(), ": ", error.what(), "; expected a run's summary"));
    }
  }
  if (other_count > 1) other += concat(" (and ", other_count - 1, " more like it)");
  if (other_count > 0) say(concat("prediction: ", other, ", not compared"));
  return newest;
}

std::string comparison_text(const PastPrediction& past, const Observed& run) {
  const double error = run.images_per_second > 0 ? past.images_per_second / run.images_per_second - 1 : 0;
  char difference[64];
  std::snprintf(difference, sizeof difference, "%.1f %% too %s", 100 * std::abs(error), error > 0 ? "much" : "little");
  return concat("prediction: ", past.summary.parent_path().filename().string(), " (", workers_text(past.workers),
                ") said ", rate_text(past.images_per_second), " for ", workers_text(run.workers), "; it was ",
                rate_text(run.images_per_second), ": ", difference, run.is_emulated ? " [emulated]" : "");
}

}  // namespace penstock
