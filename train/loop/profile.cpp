// Profile: starting, stopping, and the rows of the trace.
#include "train/loop/profile.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/number_text.h"
#include "core/text.h"
#include "train/options/emulated.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWarmUpSteps = 9;  // after these, allocators, caches and the loader's chunk size have settled

/// Equal for all processes on one machine, which read the same CLOCK_MONOTONIC.
int64_t machine_hash() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  file >> boot_id;
  return static_cast<int64_t>(std::hash<std::string>()(boot_id));
}

/// Stretches of laps without gaps. The time between two stretches belongs to no step: it is an evaluation or a
/// checkpoint.
class Stretches {
 public:
  explicit Stretches(const std::vector<Lap>& laps) {
    for (const Lap& lap : laps) {
      if (begins_.empty() || ends_.back() != lap.begin_ns) {
        begins_.push_back(lap.begin_ns);
        ends_.push_back(lap.end_ns);
      }
      ends_.back() = lap.end_ns;
    }
  }
  bool contain(int64_t ns) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), ns) - begins_.begin();
    return after > 0 && ns < ends_[static_cast<size_t>(after - 1)];
  }

 private:
  std::vector<int64_t> begins_, ends_;
};

TraceLane lane_of(const std::string& name, const std::vector<Lap>& laps) {
  TraceLane lane{name};
  for (const Lap& lap : laps) {
    lane.events.push_back({kPhaseNames[static_cast<size_t>(lap.phase)],
                           "step",
                           lap.begin_ns,
                           lap.end_ns,
                           {{"step", lap.step}, {"epoch", lap.epoch}}});
  }
  return lane;
}

/// The numbers that tell a message from all others of at most 4,096 steps and as many ranks.
std::string id_of(const MessageEnd& message) {
  return printed("%03x%03x%03x%07x", static_cast<unsigned>(message.step & 0xfff),
                 static_cast<unsigned>(message.from & 0xfff), static_cast<unsigned>(message.to & 0xfff),
                 static_cast<unsigned>(message.tag & 0xfffffff));
}

std::vector<TraceArrow> arrows_of(const std::vector<MessageEnd>& messages) {
  std::vector<TraceArrow> arrows;
  for (const auto& message : messages) arrows.push_back({message.what, id_of(message), message.is_sent, message.ns});
  return arrows;
}

}  // namespace

Profile::Profile(const TrainOptions& options, Comm& comm, Recorder& recorder, bool is_on_cuda, bool has_operators)
    : options_(options), comm_(comm), recorder_(recorder), is_on_cuda_(is_on_cuda), has_operators_(has_operators) {}

void Profile::on_chunk(const ChunkTime& chunk) {
  if (!keeps_chunks_.load(std::memory_order_relaxed)) return;
  const MutexLock lock(mutex_);
  chunks_.push_back(chunk);
}

void Profile::open() {
  std::error_code ignored;  // opening the file reports it
  fs::create_directories(options_.out, ignored);
  part_.emplace(trace_part_path(options_.out, comm_.rank()));
}

void Profile::plan(int64_t steps_left) {
  if (steps_left <= 0) return;
  first_ = std::clamp<int64_t>(steps_left - options_.profile_steps, 0, kWarmUpSteps);
  last_ = std::min(first_ + options_.profile_steps, steps_left);
}

void Profile::start() {
  first_ = -1;  // there is only one start
  is_on_ = true;
  if (has_operators_) session_.emplace(is_on_cuda_);
  agree_on_origin();
  keeps_chunks_ = true;
  recorder_.keep_laps();
}

/// Finds a zero for the times of all ranks: the time of rank 0 as they leave a barrier, if this rank is on the same
/// machine, otherwise this rank's own time then.
void Profile::agree_on_origin() {
  auto mine = torch::tensor({machine_hash(), int64_t{0}});
  comm_.barrier();
  mine[1] = now_ns();
  const auto all = comm_.all_gather(is_on_cuda_ ? mine.cuda() : mine).cpu();
  const bool is_beside_first = all[0][0].item<int64_t>() == mine[0].item<int64_t>();
  origin_ns_ = (is_beside_first ? all[0][1] : mine[1]).item<int64_t>();
}

void Profile::stop() {
  laps_ = recorder_.take_laps();
  keeps_chunks_ = false;
  is_on_ = false;
  if (session_) ops_ = session_->stop();
  session_.reset();
  recorder_.restart();
}

void Profile::write(const std::function<void(const std::string&)>& log) {
  if (laps_.host.empty()) {
    part_.reset();
    if (comm_.rank() == 0) log("profile: the run ended before the first step to profile, so there is no trace");
    return;
  }
  write_trace_part(*part_, comm_.rank(), lanes(), origin_ns_);
  part_->commit();
  part_.reset();
  comm_.barrier();
  if (comm_.rank() != 0) return;
  const int64_t first_step = laps_.host.front().step, last_step = laps_.host.back().step;
  merge_trace(options_.out, comm_.world_size(),
              {{"first_step", first_step},
               {"last_step", last_step},
               {"world_size", comm_.world_size()},
               {"workers", options_.workers},
               {"device", options_.device},
               {"emulated", is_emulated(options_)}},
              log);
  const int64_t step_count = last_step - first_step + 1;
  std::string line =
      concat("profile: steps ", first_step, " to ", last_step, " in ", (options_.out / "trace.json").string());
  if (step_count < options_.profile_steps)
    line += concat(", ", step_count, " of the ", options_.profile_steps, " asked for: the run had no more");
  log(line + "; open it at ui.perfetto.dev or chrome://tracing");
}

std::vector<TraceLane> Profile::lanes() const {
  std::vector<TraceLane> lanes;
  add_loader_lanes(lanes);
  lanes.push_back(lane_of("trainer", laps_.host));
  lanes.back().arrows = arrows_of(laps_.messages);
  if (is_on_cuda_) lanes.push_back(lane_of("device", laps_.device));
  add_op_lanes(lanes);
  return lanes;
}

void Profile::add_loader_lanes(std::vector<TraceLane>& lanes) const {
  for (int worker = 0; worker < std::max(options_.workers, 1); ++worker)
    lanes.push_back({concat("loader worker ", worker)});
  const MutexLock lock(mutex_);  // a worker may still be in on_chunk()
  for (const ChunkTime& chunk : chunks_) {
    if (chunk.begin_ns < laps_.host.front().begin_ns || chunk.end_ns > laps_.host.back().end_ns) continue;
    lanes[static_cast<size_t>(chunk.worker)].events.push_back(
        {concat("batch ", chunk.batch),
         "loader",
         chunk.begin_ns,
         chunk.end_ns,
         {{"rows", chunk.end_row - chunk.begin_row}, {"first_row", chunk.begin_row}, {"epoch", chunk.epoch}}});
  }
}

void Profile::add_op_lanes(std::vector<TraceLane>& lanes) const {
  const Stretches on_host(laps_.host), on_device(laps_.device);
  std::map<std::pair<bool, uint64_t>, std::vector<TraceEvent>> rows;
  for (const OpTime& op : ops_) {
    if (!(op.is_on_device ? on_device : on_host).contain(op.begin_ns)) continue;
    rows[{op.is_on_device, op.lane}].push_back({op.name, op.is_on_device ? "kernel" : "op", op.begin_ns, op.end_ns});
  }
  for (auto& [row, events] : rows) {
    const auto& [is_on_device, number] = row;
    for (auto& lane : nested_lanes(concat(is_on_device ? "stream " : "ops of thread ", number), std::move(events)))
      lanes.push_back(std::move(lane));
  }
}

}  // namespace penstock
