// Trace: a time line as the Trace Event Format has it, which chrome://tracing and ui.perfetto.dev open.
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
  std::vector<std::pair<const char*, int64_t>> arguments = {};  ///< What a viewer shows of it, in this order.
};

/// One row. Its events lie beside or within one another.
struct TraceLane {
  std::string name;
  std::vector<TraceEvent> events = {};
};

/// The events in as few lanes as it takes for those of a lane to lie beside or within one another; a viewer draws
/// others wrongly. The first lane is `name`, the others `name (2)`, ...
std::vector<TraceLane> nested_lanes(const std::string& name, std::vector<TraceEvent> events);

/// OUT/trace-rank-<rank>.json.
std::filesystem::path trace_part_path(const std::filesystem::path& out, int rank);

/// One rank's lanes, in this order from the top, as process `rank`; times are since `origin_ns`. A trace by itself (the
/// format's array form), an event a line.
void write_trace_part(AtomicFile& file, int rank, const std::vector<TraceLane>& lanes, int64_t origin_ns);

/// Writes OUT/trace.json from the parts of all ranks and removes these. `other_data` is the trace's otherData. A part
/// that is not there is left out and `say` hears of it. Throws io_error. Memory: one line.
void merge_trace(const std::filesystem::path& out, int world_size, const nlohmann::ordered_json& other_data,
                 const std::function<void(const std::string&)>& say);

}  // namespace penstock
