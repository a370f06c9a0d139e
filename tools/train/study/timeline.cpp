// Timeline: the events of a Chrome trace as lanes, and the rows of gpu.csv as points.
#include "tools/train/study/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/json_text.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/text.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

struct Bar {
  double start_us = 0, end_us = 0;
  std::string name;
  int64_t step = 0, epoch = 0;
};
struct Track {
  std::string name;
  std::vector<Bar> steps, loads;  // without workers one thread does both, and gets two lanes
};

std::set<int64_t> ranks_of(const Json& events) {
  std::set<int64_t> ranks;
  for (const auto& event : events)
    if (event.value("cat", "") == "step") ranks.insert(event.at("pid").get<int64_t>());
  return ranks;
}

/// The threads of a rank, by tid.
std::map<int64_t, Track> read_tracks(const Json& events, int64_t rank) {
  std::map<int64_t, Track> tracks;
  for (const auto& event : events) {
    if (event.value("pid", int64_t{-1}) != rank) continue;
    const std::string kind = event.at("ph"), category = event.value("cat", "");
    if (kind == "M" && event.at("name") == "thread_name")
      tracks[event.at("tid").get<int64_t>()].name = event.at("args").at("name").get<std::string>();
    if (kind != "X" || (category != "step" && category != "loader")) continue;
    Track& track = tracks[event.at("tid").get<int64_t>()];
    const double start = event.at("ts").get<double>();
    const Json arguments = event.value("args", Json::object());
    (category == "step" ? track.steps : track.loads)
        .push_back({start, start + event.at("dur").get<double>(), event.at("name").get<std::string>(),
                    arguments.value("step", int64_t{0}), arguments.value("epoch", int64_t{0})});
  }
  return tracks;
}

/// A lane with the part of `bars` that lies in a range. Where `joins`, pieces of one batch become one bar if the time
/// between them is less than a thousandth of the range: a batch is made in pieces.
Json lane(const std::string& name, std::vector<Bar> bars, double start_us, double end_us, bool joins) {
  std::sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) { return a.start_us < b.start_us; });
  std::vector<Bar> kept;
  for (auto& bar : bars) {
    bar.start_us = std::max(bar.start_us, start_us);
    bar.end_us = std::min(bar.end_us, end_us);
    if (bar.end_us <= bar.start_us) continue;
    if (joins && !kept.empty() && kept.back().name == bar.name &&
        bar.start_us - kept.back().end_us < (end_us - start_us) / 1000)
      kept.back().end_us = std::max(kept.back().end_us, bar.end_us);
    else
      kept.push_back(std::move(bar));
  }
  Json drawn = Json::array();
  for (const auto& bar : kept) drawn.push_back({bar.start_us, bar.end_us, bar.name, bar.step, bar.epoch});
  return {{"name", name}, {"bars", std::move(drawn)}};
}

Json lanes_of(const Json& events, const std::set<int64_t>& ranks, const std::string& trace) {
  auto tracks = ranks.empty() ? std::map<int64_t, Track>() : read_tracks(events, *ranks.begin());
  std::vector<Bar> trainer;
  for (const auto& [tid, track] : tracks) trainer.insert(trainer.end(), track.steps.begin(), track.steps.end());
  if (trainer.empty())
    throw corrupt_error(concat(trace, ": has no events of category step; expected the trainer's phases"));
  double start_us = INFINITY, end_us = 0;
  for (const auto& bar : trainer) {
    start_us = std::min(start_us, bar.start_us);
    end_us = std::max(end_us, bar.end_us);
  }
  Json lanes = Json::array();
  for (const auto& [tid, track] : tracks) {
    const bool is_loader = track.name.starts_with("loader");
    if (!track.loads.empty() || is_loader)
      lanes.push_back(lane(is_loader ? track.name : "loader", track.loads, start_us, end_us, true));
  }
  lanes.push_back(lane("trainer", std::move(trainer), start_us, end_us, false));
  if (lanes.back().at("bars").empty())
    throw corrupt_error(concat(trace, ": no event of category step takes any time; expected durations"));
  return lanes;
}

}  // namespace

Json read_timeline(const std::filesystem::path& trace) {
  const std::string text = read_text(trace, kMostOfLog);
  try {
    const Json content = Json::parse(text);
    const Json& events = content.at("traceEvents");
    const auto ranks = ranks_of(events);
    return {{"rank_count", ranks.size()}, {"lanes", lanes_of(events, ranks, trace.string())}};
  } catch (const Json::exception& error) {
    throw corrupt_error(concat(trace.string(), ": ", json_problem(error.what()), "; expected a Chrome trace"));
  }
}

Json read_gpu_use(const std::filesystem::path& csv) {
  std::error_code failure;
  if (!std::filesystem::exists(csv, failure)) return {};
  std::istringstream file(read_text(csv, kMostOfLog));
  std::string line;
  std::getline(file, line);  // the names of the columns
  Json points = Json::array();
  double busy_sum = 0, most_bytes = 0, first_seconds = 0, last_seconds = 0, all_bytes = 0;
  for (size_t number = 1; std::getline(file, line); ++number) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    double step = 0, seconds = 0, busy_percent = 0, memory_busy_percent = 0, memory_bytes = 0, total_bytes = 0;
    if (!(words >> step >> seconds >> busy_percent >> memory_busy_percent >> memory_bytes >> total_bytes) ||
        total_bytes <= 0)
      throw corrupt_error(concat(csv.string(), ": row ", number, " is ", in_quotes(line),
                                 "; expected a step, seconds, two shares in percent and two numbers of bytes"));
    if (!points.empty() && seconds < last_seconds) points.clear();  // a run that went on counts from 0 again
    if (points.empty()) busy_sum = most_bytes = 0, first_seconds = seconds, all_bytes = total_bytes;
    points.push_back({seconds, busy_percent, 100 * memory_bytes / total_bytes});
    busy_sum += busy_percent;
    most_bytes = std::max(most_bytes, memory_bytes);
    last_seconds = seconds;
  }
  if (points.empty()) return {};
  const double busy_share = busy_sum / 100 / static_cast<double>(points.size());
  return {
      {"text", concat("GPU: busy ", percent_text(busy_share), " of ", printed("%.1f s", last_seconds - first_seconds),
                      ", at most ", byte_text(static_cast<uint64_t>(most_bytes)), " of ",
                      byte_text(static_cast<uint64_t>(all_bytes)), " taken")},
      {"points", std::move(points)}};
}

}  // namespace penstock
