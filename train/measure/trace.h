// Trace: a time line in the Trace Event Format, which chrome://tracing and ui.perfetto.dev open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/atomic_file.h"

namespace penstock {

struct TraceEvent {
  std::string name;
  const char* category = "";
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<std::pair<const char*, int64_t>> arguments = {};  ///< What a viewer shows about the event, in this order.
};

/// One end of an arrow, which a viewer draws from its begin to the end with the same name and id. It belongs to the
/// event of its row that contains its time.
struct TraceArrow {
  std::string name, id;  ///< The id in hexadecimal digits, 16 at most.
  bool is_begin = false;
  int64_t ns = 0;
};

/// One row of the trace. Two of its events do not overlap, or one contains the other.
struct TraceLane {
  std::string name;
  std::vector<TraceEvent> events = {};
  std::vector<TraceArrow> arrows = {};
};

/// Spreads events over lanes, in each of which any two events do not overlap or one contains the other; viewers draw
/// other lanes wrongly. The first lane is called `name`, the others `name (2)`, `name (3)`, ...
std::vector<TraceLane> nested_lanes(const std::string& name, std::vector<TraceEvent> events);

/// The path OUT/trace-rank-<rank>.json.
std::filesystem::path trace_part_path(const std::filesystem::path& out, int rank);

/// Writes the lanes of one rank, in this order from the top, as process `rank`, with times since `origin_ns`. The part
/// is a trace by itself (in the array form of the format), with one event per line.
void write_trace_part(AtomicFile& file, int rank, const std::vector<TraceLane>& lanes, int64_t origin_ns);

/// Writes OUT/trace.json from the parts of all ranks and removes the parts. `other_data` is the trace's otherData. If a
/// part is missing it is left out, and `log` gets a line about it. Throws io_error. Memory: one line.
void merge_trace(const std::filesystem::path& out, int world_size, const nlohmann::ordered_json& other_data,
                 const std::function<void(const std::string&)>& log);

}  // namespace penstock
