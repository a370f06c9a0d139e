// Profile: phases, loader and operators during some steps of a run, in one trace of all ranks.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/mutex.h"
#include "loader/batch/loader.h"
#include "train/comm/comm.h"
#include "train/measure/kineto.h"
#include "train/measure/recorder.h"
#include "train/measure/trace.h"
#include "train/options/options.h"

namespace penstock {

/// --profile for one rank. The trace has a row for each loader worker, for the trainer's phases and, on CUDA, for those
/// of the device, then for the operators of each thread and stream. Arrows lead from where the trainer of one rank
/// sends a message to where that of another one has received it. Times are those of now_ns(); for ranks on different
/// machines, zero is the moment when they leave a barrier together.
///
/// The first profiled step is the tenth of this process, or an earlier one if the run has too few steps after that. All
/// ranks profile the same steps.
///
/// Cost: nothing without a Profile; with one, 2 ns per chunk outside of the profiled steps. Kineto makes the profiled
/// steps slower.
///
/// Thread-safety: for the training thread only; on_chunk() may be called by any thread.
class Profile {
 public:
  /// Without `has_operators` the trace has no operators of this rank: LibTorch's profiler serves one thread per
  /// process.
  Profile(const TrainOptions& options, Comm& comm, Recorder& recorder, bool is_on_cuda, bool has_operators = true);

  /// For LoaderOptions::on_chunk. Requires that the profile outlives the loader.
  void on_chunk(const ChunkTime& chunk);
  /// Opens the rank's file before the first step, so that a folder that cannot be written is noticed early. Throws
  /// io_error.
  void open();
  /// Chooses the steps to profile. To be called before the first step with the number of steps of this process.
  void plan(int64_t steps_left);

  /// Whether the profile starts or stops after the step of this number, counted in this process.
  bool starts_after(int64_t step_count) const { return step_count == first_; }
  bool stops_after(int64_t step_count) const { return is_on_ && step_count == last_; }
  bool is_on() const { return is_on_; }
  void start();  ///< Collective. Restarts the recorder.
  void stop();   ///< Restarts the recorder.

  /// Collective. Rank 0 writes OUT/trace.json, and its `log` gets lines for people. Throws io_error.
  void write(const std::function<void(const std::string&)>& log);

 private:
  void agree_on_origin();
  std::vector<TraceLane> lanes() const;
  void add_loader_lanes(std::vector<TraceLane>& lanes) const;
  void add_op_lanes(std::vector<TraceLane>& lanes) const;

  const TrainOptions& options_;
  Comm& comm_;
  Recorder& recorder_;
  bool is_on_cuda_, has_operators_, is_on_ = false;
  int64_t first_ = -1, last_ = -1;  // it starts and stops after these numbers of steps of this process
  int64_t origin_ns_ = 0;           // time that is zero in the trace
  std::optional<AtomicFile> part_;
  std::optional<KinetoSession> session_;
  Laps laps_;
  std::vector<OpTime> ops_;
  std::atomic<bool> keeps_chunks_{false};
  mutable Mutex mutex_;
  std::vector<ChunkTime> chunks_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock
