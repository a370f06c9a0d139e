// Results: medians and predictions from the summaries of the runs.
#include "tools/train/study/results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "core/error.h"
#include "core/json_text.h"
#include "core/median.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "train/options/emulated.h"
#include "train/options/options_file.h"
#include "train/run/run_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json read_summary(const fs::path& folder) {
  const fs::path path = folder / "summary.json";
  const std::string text = read_text(path);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw corrupt_error(concat(path.string(), ": ", json_problem(error.what()),
                               "; expected a summary of a run, delete it to repeat the run"));
  }
  if (const auto format = json.value("format", 1); format != kSummaryFormat)
    throw config_error(concat(path.string(), ": is of format ", format, "; expected ", kSummaryFormat,
                              ", delete it to repeat the run"));
  return json;
}

Spread spread_over(const std::vector<Json>& repeats, const char* key) {
  std::vector<double> values;
  for (const auto& repeat : repeats) values.push_back(repeat.at(key).get<double>());
  return spread_of(std::move(values));
}

Spread phase_over(const std::vector<Json>& repeats, const char* phase) {
  std::vector<double> values;
  for (const auto& repeat : repeats) values.push_back(repeat.at("phase_ms").at(phase).get<double>());
  return spread_of(std::move(values));
}

/// Only the phases are times; the rest is the same in all repeats.
StepParts step_parts(const std::vector<Json>& repeats, const StudyOptions& options) {
  const auto phase = [&](const char* name) { return phase_over(repeats, name).median; };
  const Json& last = repeats.back();
  const Json& configuration = last.at("configuration");
  StepParts parts;
  parts.load = phase("wait");
  parts.forward = phase("forward");
  parts.backward = phase("backward");
  parts.optimizer = phase("optimizer");
  parts.other = phase("host_to_device") + phase("other");
  parts.threads = last.at("threads").get<double>();
  parts.cores = configuration.at("cores").get<double>();
  parts.is_emulated = !options.train.emulation.learns();
  parts.uses_cores = configuration.at("device") == "cpu" && !parts.is_emulated;
  if (last.contains("tensor_memory"))
    parts.parameter_bytes = last.at("tensor_memory").at("parameters").at("bytes").at(0).get<double>();
  parts.activation_bytes = last.value("activation_bytes", 0.0);
  if (last.contains("replicas")) parts.replicas = static_cast<int>(last.at("replicas").size());
  return parts;
}

Spread storage_over(const std::vector<Json>& repeats) {
  std::vector<double> values;
  for (const auto& repeat : repeats) values.push_back(repeat.at("limit").at("service_ms").at("storage").get<double>());
  return spread_of(std::move(values));
}

/// The share of the time of all ranks, as the run itself said it.
Spread bubble_over(const std::vector<Json>& repeats) {
  std::vector<double> values;
  for (const auto& repeat : repeats)
    values.push_back(repeat.contains("bubble") ? repeat.at("bubble").at("measured").get<double>() : 0);
  return spread_of(std::move(values));
}

double most_other_cores(const std::vector<Json>& repeats) {
  double most = 0;
  for (const auto& repeat : repeats) most = std::max(most, repeat.at("limit").at("other_cores").get<double>());
  return most;
}

/// The rate that a run predicts for `workers` workers, divided by the run's own rate. The summary lists all numbers of
/// workers up to the number of cores; beyond that the model's rate does not change. `key` selects the prediction or an
/// end of its range.
double predicted_gain(const Json& summary, int workers, const char* key) {
  double rate = 0;
  for (const auto& one : summary.at("limit").at("predictions"))
    if (one.at("workers").get<int>() <= workers) rate = one.at(key).get<double>();
  return rate / summary.at("images_per_second").get<double>();
}

double predicted_seconds(const RowResult& base, const std::vector<Json>& base_repeats, int workers, const char* key) {
  std::vector<double> gains;
  for (const auto& repeat : base_repeats) gains.push_back(predicted_gain(repeat, workers, key));
  return base.total_s.median / spread_of(std::move(gains)).median;
}

std::string setting_text(const Json& configuration, const StudyOptions& options) {
  const auto text = [&](const char* key) { return text_in(configuration.at(key)); };
  std::string setting = concat(text("data"), ", ", configuration.at("samples").dump(), " samples, ",
                               options.train.epochs, options.train.epochs == 1 ? " epoch" : " epochs", "; ",
                               text("arch"), ", batch ", configuration.at("batch-size").dump(), ", on ", text("device"),
                               "; ", text("processor"), ", ", configuration.at("cores").dump(), " cores");
  setting += options.train.augment.empty() ? "" : "; augment " + options.train.augment;
  const auto milliseconds = [](int64_t ns) { return concat(static_cast<double>(ns) * 1e-6, " ms"); };
  const Emulation& emulation = options.train.emulation;
  if (emulation.step_ns > 0)
    setting += "; emulated step of " + milliseconds(emulation.step_ns) + ", which learns nothing";
  if (emulation.load_ns > 0) setting += "; emulated load of " + milliseconds(emulation.load_ns) + " per sample";
  if (emulation.network) setting += "; emulated network of " + emulation.network->text;
  return setting;
}

void predict(std::vector<RowResult>& rows, const std::vector<std::vector<Json>>& summaries) {
  for (size_t i = 0; i < rows.size(); ++i) {
    size_t first = i;
    while (first > 0 && rows[first - 1].row.group == rows[i].row.group) --first;
    const size_t base = i == first ? first + 1 : first;
    if (base >= rows.size() || rows[base].row.group != rows[i].row.group) continue;
    const auto seconds = [&](const char* key) {
      return predicted_seconds(rows[base], summaries[base], rows[i].row.workers, key);
    };
    rows[i].predicted_s = seconds("images_per_second");
    rows[i].predicted_low_s = seconds("high");  // the highest rate gives the shortest time
    rows[i].predicted_high_s = seconds("low");
  }
}

/// The rows that differ from each other in their number of workers alone.
std::vector<std::span<const RowResult>> groups_of(const std::vector<RowResult>& rows) {
  std::vector<std::span<const RowResult>> groups;
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    while (end < rows.size() && rows[end].row.group == rows[begin].row.group) ++end;
    groups.push_back(std::span(rows).subspan(begin, end - begin));
  }
  return groups;
}

const RowResult& fastest(std::span<const RowResult> group) {
  return *std::min_element(group.begin(), group.end(),
                           [](const RowResult& a, const RowResult& b) { return a.total_s.median < b.total_s.median; });
}

/// "ddp, 2 ranks: fastest with 2 workers, 1.55x as fast as with 0; ranges overlap with 4". One run of each row shows no
/// range, so that it cannot tell which row is the fastest: the text then says that there was one.
std::string fastest_text(std::span<const RowResult> group, int repeat_count) {
  const auto& base = group.front();
  const auto& best = fastest(group);
  std::string text = concat(group_text(base.row), ": fastest ", repeat_count == 1 ? "of one run each: " : "with ",
                            count_text(best.row.workers, "worker"));
  if (&best != &base) {
    char speed_up[32];
    std::snprintf(speed_up, sizeof speed_up, "%.2fx", base.total_s.median / best.total_s.median);
    text += concat(", ", speed_up, " as fast as with ", base.row.workers);
  }
  std::vector<std::string> alike;
  for (const auto& one : group)
    if (&one != &best && one.total_s.low <= best.total_s.high) alike.push_back(std::to_string(one.row.workers));
  return alike.empty() ? text : text + "; ranges overlap with " + join(alike);
}

/// "2 rows ran while other programs had up to 0.9 cores (median over the rows): single, 0 workers; ...".
std::string busy_machine_text(const std::vector<RowResult>& rows) {
  std::vector<std::string> names;
  std::vector<double> cores;
  for (const auto& row : rows) {
    if (row.other_cores <= 0) continue;
    names.push_back(row_text(row.row));
    cores.push_back(row.other_cores);
  }
  if (names.empty()) return "";
  char middle[32];
  std::snprintf(middle, sizeof middle, "%.1f", median(cores));
  return concat(count_text(names.size(), "row"), " ran while other programs had up to ", middle,
                " cores (median over the rows): ", join(names, "; "));
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {median(values), *least, *most};
}

std::optional<double> RowResult::error() const {
  if (!predicted_s || total_s.median <= 0) return std::nullopt;
  return *predicted_s / total_s.median - 1;
}

StudyResults read_results(const StudyOptions& options, const std::vector<StudyRow>& rows,
                          const std::vector<std::vector<fs::path>>& folders) {
  StudyResults results{options.command(), {}, is_emulated(options.train), {}, options.repeat_count, {}};
  results.net = options.train.emulation.network;
  std::vector<std::vector<Json>> summaries;
  for (size_t i = 0; i < rows.size(); ++i) {
    auto& repeats = summaries.emplace_back();
    for (const auto& folder : folders[i]) repeats.push_back(read_summary(folder));
    try {
      RowResult result;
      result.row = rows[i];
      result.load_ms = spread_over(repeats, "load_ms_per_step");
      result.update_ms = spread_over(repeats, "update_ms_per_step");
      result.total_s = spread_over(repeats, "train_seconds");
      result.images_per_second = spread_over(repeats, "images_per_second");
      result.communication_ms = phase_over(repeats, "communication");
      result.bubble = bubble_over(repeats);
      result.step = step_parts(repeats, options);
      result.rank_memory_bytes = repeats.back().at("peak_memory_bytes_of_ranks").get<std::vector<int64_t>>();
      result.splits_batch_norm = repeats.back().value("batch_norm_rows", Json()) == "parts of batches";
      result.storage_ms = storage_over(repeats);
      result.other_cores = most_other_cores(repeats);
      if (repeats.back().contains("link")) result.link = link_of_json(repeats.back().at("link").dump());
      result.sentence = repeats.back().at("limit").at("sentence");
      result.folder = folders[i].back();
      if (!repeats.back().at("accuracy").is_null()) result.accuracy = spread_over(repeats, "accuracy");
      results.rows.push_back(std::move(result));
      if (i == 0) results.setting = setting_text(repeats.back().at("configuration"), options);
    } catch (const Json::exception& error) {
      throw corrupt_error(concat((folders[i].back() / "summary.json").string(), ": ", json_problem(error.what()),
                                 "; expected a summary of a run, delete it to repeat the run"));
    }
  }
  predict(results.rows, summaries);
  return results;
}

std::string others_text(const RowResult& row) {
  if (row.other_cores <= 0) return "";
  char cores[32];
  std::snprintf(cores, sizeof cores, "%.1f", row.other_cores);
  return concat("other programs had up to ", cores, " cores meanwhile");
}

std::vector<std::string> findings(const StudyResults& results) {
  const std::string mark = results.is_emulated ? " [emulated]" : "";
  std::vector<std::string> lines;
  for (const auto& group : groups_of(results.rows))
    if (group.size() > 1) lines.push_back(fastest_text(group, results.repeat_count) + mark);
  if (const auto text = busy_machine_text(results.rows); !text.empty()) lines.push_back(text + mark);
  std::vector<double> errors;
  const RowResult* worst = nullptr;
  for (const auto& row : results.rows) {
    if (!row.error()) continue;
    errors.push_back(std::abs(*row.error()));
    if (worst == nullptr || errors.back() > std::abs(*worst->error())) worst = &row;
  }
  if (worst != nullptr) {
    lines.push_back(concat("predicted totals of ", errors.size(), " rows, each from another row: median error ",
                           percent_text(spread_of(errors).median, 1), ", largest ",
                           percent_text(std::abs(*worst->error()), 1), " (", row_text(worst->row), ")", mark));
  }
  return lines;
}

std::vector<std::string> limits(const StudyResults& results) {
  std::vector<std::string> lines;
  for (const auto& group : groups_of(results.rows))
    lines.push_back(concat(row_text(fastest(group).row), ": ", fastest(group).sentence));
  return lines;
}

}  // namespace penstock
