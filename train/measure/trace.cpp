// Trace: lanes, the part of each rank, and the trace that is merged from the parts.
#include "train/measure/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "core/json_text.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/text.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) { return json_text(json); }  // a text or a list becomes a Json first

/// Nanoseconds as microseconds, exactly.
std::string micros(int64_t ns) {
  const auto magnitude = static_cast<long long>(ns < 0 ? -ns : ns);
  return printed("%s%lld.%03lld", ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

/// Writes one event per line, with commas between them.
class EventWriter {
 public:
  explicit EventWriter(AtomicFile& file) : file_(file) {}
  void add(std::string_view event) {
    file_.write(std::exchange(separator_, ",\n"));
    file_.write(event);
  }

 private:
  AtomicFile& file_;
  std::string_view separator_ = "\n";
};

std::string metadata(const char* name, int rank, size_t lane, const Json& arguments) {
  return dumped({{"ph", "M"}, {"name", name}, {"pid", rank}, {"tid", lane}, {"ts", 0}, {"args", arguments}});
}

void add_event(EventWriter& lines, const TraceEvent& event, int rank, size_t lane, int64_t origin_ns) {
  std::string line = concat(R"({"ph":"X","name":)", dumped(event.name), R"(,"cat":")", event.category, R"(","pid":)",
                            rank, R"(,"tid":)", lane, R"(,"ts":)", micros(event.begin_ns - origin_ns), R"(,"dur":)",
                            micros(event.end_ns - event.begin_ns));
  std::string arguments;
  for (const auto& [name, value] : event.arguments)
    arguments += concat(arguments.empty() ? "" : ",", '"', name, R"(":)", value);
  if (!arguments.empty()) line += concat(R"(,"args":{)", arguments, "}");
  lines.add(line + "}");
}

void add_arrow(EventWriter& lines, const TraceArrow& arrow, int rank, size_t lane, int64_t origin_ns) {
  // Without "bp":"e" the arrow would end at the event that begins next.
  lines.add(concat(arrow.is_begin ? R"({"ph":"s")" : R"({"ph":"f","bp":"e")", R"(,"name":)", dumped(arrow.name),
                   R"(,"cat":"message","id":")", arrow.id, R"(","pid":)", rank, R"(,"tid":)", lane, R"(,"ts":)",
                   micros(arrow.ns - origin_ns), "}"));
}

/// Adds the events of a part. Returns false if there is no such file.
bool add_part(EventWriter& lines, const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  std::istringstream file(read_text(path, kMostOfLog));
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] != '{') continue;  // the brackets of the array
    if (line.back() == ',') line.pop_back();
    lines.add(line);
  }
  return true;
}

}  // namespace

std::vector<TraceLane> nested_lanes(const std::string& name, std::vector<TraceEvent> events) {
  // If two begin together, the longer one contains the other.
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<TraceLane> lanes;
  std::vector<std::vector<int64_t>>
      open_ends;  // one entry per lane: the ends of its events that have begun and not ended
  for (auto& event : events) {
    size_t lane = 0;
    for (; lane < lanes.size(); ++lane) {
      auto& ends = open_ends[lane];
      while (!ends.empty() && ends.back() <= event.begin_ns) ends.pop_back();
      if (ends.empty() || event.end_ns <= ends.back()) break;
    }
    if (lane == lanes.size()) {
      lanes.push_back({lane == 0 ? name : concat(name, " (", lane + 1, ")")});
      open_ends.emplace_back();
    }
    open_ends[lane].push_back(event.end_ns);
    lanes[lane].events.push_back(std::move(event));
  }
  return lanes;
}

fs::path trace_part_path(const fs::path& out, int rank) { return out / concat("trace-rank-", rank, ".json"); }

void write_trace_part(AtomicFile& file, int rank, const std::vector<TraceLane>& lanes, int64_t origin_ns) {
  file.write("[");
  EventWriter lines(file);
  lines.add(metadata("process_name", rank, 0, {{"name", concat("rank ", rank)}}));
  lines.add(metadata("process_sort_index", rank, 0, {{"sort_index", rank}}));
  for (size_t i = 0; i < lanes.size(); ++i) {
    const size_t lane = i + 1;
    lines.add(metadata("thread_name", rank, lane, {{"name", lanes[i].name}}));
    lines.add(metadata("thread_sort_index", rank, lane, {{"sort_index", lane}}));
    for (const auto& event : lanes[i].events) add_event(lines, event, rank, lane, origin_ns);
    for (const auto& arrow : lanes[i].arrows) add_arrow(lines, arrow, rank, lane, origin_ns);
  }
  file.write("\n]\n");
}

void merge_trace(const fs::path& out, int world_size, const Json& other_data,
                 const std::function<void(const std::string&)>& log) {
  AtomicFile file(out / "trace.json");
  file.write(concat(R"({"displayTimeUnit":"ms","otherData":)", dumped(other_data), R"(,"traceEvents":[)"));
  EventWriter lines(file);
  for (int rank = 0; rank < world_size; ++rank) {
    const fs::path part = trace_part_path(out, rank);
    if (!add_part(lines, part)) {
      log(concat("profile: ", part.string(), " is not there, so the trace lacks rank ", rank,
                 "; expected a folder that all ranks share"));
    }
  }
  file.write("\n]}\n");
  file.commit();
  for (int rank = 0; rank < world_size; ++rank) fs::remove(trace_part_path(out, rank));
}

}  // namespace penstock
