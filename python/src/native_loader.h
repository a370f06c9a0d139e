// NativeLoader: a Loader as Python holds it: open to any thread, and to be closed at any moment.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "loader/batch/loader.h"
#include "loader/bottleneck/bottleneck.h"
#include "loader/bottleneck/watch.h"

namespace penstock::python {

/// Every function waits for its turn, so that calls on several threads at once are in order; none of them needs the
/// GIL, and none may hold it. close() ends the loader for good: workers that go on while an interpreter ends would read
/// what is destroyed under them.
///
/// Errors: config_error for a loader that is closed, that was made in another process (whose threads a fork leaves
/// behind), or that is called by a signal handler which runs inside of its own next().
class NativeLoader {
 public:
  /// One or more `data`, which are joined, and `split` as for Dataset::open(), `augment` as for Pipeline.
  NativeLoader(const std::vector<std::filesystem::path>& data, const std::string& split, const std::string& augment,
               LoaderOptions options);
  ~NativeLoader();

  void start_epoch(int64_t epoch, int64_t first_batch);
  /// Rows have the indices of their samples in subset(), where there is one.
  std::optional<Batch> next();
  /// Batch `index` of `epoch`, made by the calling thread. It does not disturb the epoch that next() goes through.
  Batch batch(int64_t epoch, int64_t index);
  /// The digest of this rank's part of an epoch, by a loader of its own.
  std::string digest(int64_t epoch);
  /// What the transforms draw for sample `index` in `epoch`, as a plan of the upright picture. What mixup and cutmix do
  /// is no part of it.
  Plan plan(int64_t epoch, uint64_t index) const;
  LoaderStatistics statistics();
  /// From here on next() is measured, and what happens between its calls. An earlier measurement is dropped.
  void begin_watch();
  /// Ends it. `run` has what Watch::observed() asks for, without workers. Throws config_error if no batch was taken.
  LoopMeasurement end_watch(LoopMeasurement run);
  void drop_watch();  ///< Ends it without a result.
  /// How a loop would go (foresee() of loader/bottleneck/observe.h). With fewer than 8 batches of its own to judge by,
  /// the loader makes up to 32 for this, for a second at most.
  LoopMeasurement foresee(LoopMeasurement run, double step_ms, double step_cpu_ms);
  size_t memory_bytes();
  const std::vector<std::string>& warnings() const { return warnings_; }
  void close();

  const Dataset& dataset() const { return *dataset_; }
  const Pipeline& pipeline() const { return pipelines_.front(); }
  const std::vector<Pipeline>& pipelines() const { return pipelines_; }  ///< One entry per view; first the images'.
  const LoaderOptions& options() const { return options_; }
  const Extent& extent() const { return extent_; }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  uint64_t samples_per_epoch() const { return samples_per_epoch_; }
  uint64_t rows() const { return rows_; }  ///< SampleOrder::rows(), as the next two
  /// The samples that the epochs have, where these are not all: SampleOrder::subset(); empty otherwise.
  const std::vector<uint64_t>& subset() const { return subset_; }
  const std::string& selection() const { return selection_; }            // identity()
  const std::string& selection_text() const { return selection_text_; }  // text()

 private:
  class Turn;
  Batch numbered(Batch batch) const;
  LoaderStatistics try_out() const;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<Pipeline> pipelines_;
  LoaderOptions options_;
  Extent extent_;
  int64_t batches_per_epoch_ = 0;
  uint64_t samples_per_epoch_ = 0, rows_ = 0;
  std::vector<uint64_t> subset_;
  std::string selection_, selection_text_;
  std::vector<std::string> warnings_;
  pid_t process_;
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};  // the thread whose turn it is
  std::unique_ptr<Loader> loader_;        // null: closed
  std::unique_ptr<Loader> single_;        // makes what batch() asks for; null until then
  std::optional<Watch> watch_;            // empty: the loop is not measured
};

}  // namespace penstock::python
