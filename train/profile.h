// Profile: some steps of a run looked at closely: phases, loader, operators, in one trace over all ranks.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "loader/loader.h"
#include "train/comm/comm.h"
#include "train/kineto.h"
#include "train/options.h"
#include "train/recorder.h"
#include "train/trace.h"

namespace penstock {

/// --profile, of one rank. Rows: each loader worker, the trainer's phases, on CUDA the device's, then the operators of
/// each thread and stream. A worker's or a step's time is now_ns()'s; of ranks on different machines it is set to zero
/// as they leave a barrier together.
///
/// The steps begin at the tenth of this process, or earlier where the run has no more behind it. Ranks profile the same
/// steps.
///
/// Cost: nothing without a Profile; with one, 2 ns a chunk but in the profiled steps, which Kineto makes slower.
///
/// Thread-safety: the training thread's alone; on_chunk() from any.
class Profile {
 public:
  Profile(const TrainOptions& options, Comm& comm, Recorder& recorder, bool is_on_cuda);

  /// For LoaderOptions::on_chunk. The profile outlives the loader.
  void on_chunk(const ChunkTime& chunk);
  /// Before the first step: makes the rank's file, so that a folder that cannot be written is noticed now. Throws
  /// io_error.
  void open();
  /// Before the first step: how many there will be.
  void plan(int64_t steps_left);

  bool starts_behind(int64_t step_count) const { return step_count == first_; }  ///< Of this process.
  bool stops_behind(int64_t step_count) const { return session_ && step_count == last_; }
  bool is_on() const { return session_.has_value(); }
  void start();  ///< Collective. The recorder starts anew.
  void stop();   ///< The recorder starts anew.

  /// Collective: OUT/trace.json by rank 0. `say` gets lines for people, on rank 0. Throws io_error.
  void write(const std::function<void(const std::string&)>& say);

 private:
  void agree_on_origin();
  std::vector<TraceLane> lanes() const;
  void add_loader_lanes(std::vector<TraceLane>& lanes) const;
  void add_op_lanes(std::vector<TraceLane>& lanes) const;

  const TrainOptions& options_;
  Comm& comm_;
  Recorder& recorder_;
  bool is_on_cuda_;
  int64_t first_ = -1, last_ = -1;  // steps of this process behind which it starts and stops
  int64_t origin_ns_ = 0;           // the trace's zero
  std::optional<AtomicFile> part_;
  std::optional<KinetoSession> session_;
  Laps laps_;
  std::vector<OpTime> ops_;
  std::atomic<bool> keeps_chunks_{false};
  std::mutex mutex_;
  std::vector<ChunkTime> chunks_;
};

}  // namespace penstock
