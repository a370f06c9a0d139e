// Sink: the plug-in that writes a run's figures somewhere. There is a record every --print-freq steps, and one per
// epoch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/registry.h"
#include "train/measure/recorder.h"

namespace penstock {

/// What NVML says of the GPU of rank 0 at one moment.
struct GpuSample {
  double seconds = 0;              ///< Since this process began to sample, shortly before its first step.
  double busy_percent = 0;         ///< Share of the last 1/6 s or more in which a kernel ran.
  double memory_busy_percent = 0;  ///< Share of it in which device memory was read or written.
  int64_t memory_bytes = 0, memory_total_bytes = 0;  ///< Of the whole GPU, all its processes.
};

/// The figures of the steps since the previous record of the same kind. Means and rates are over all ranks; times are
/// those of rank 0.
struct Metrics {
  enum class Kind { kStep, kEpoch };

  Kind kind = Kind::kStep;
  int64_t epoch = 0, epoch_count = 0;  ///< The first epoch is 1 in all sinks.
  int64_t step = 0;                    ///< Steps done since the run began.
  double loss = 0;                     ///< Mean over the samples.
  double accuracy = 0;                 ///< Accuracy on the training samples, when they were trained on.
  double learning_rate = 0;            ///< That of the last step.
  double seconds = 0;                  ///< Without evaluations and checkpoints.
  double images_per_second = 0;
  double load_ms = 0;            ///< Per step: waiting for the batch and copying it.
  double update_ms = 0;          ///< Per step: everything else.
  StepTimes a_step = {};         ///< Milliseconds per step, by phase.
  double ready_share = 0;        ///< Share, 0..1, of the batches that were ready when they were asked for.
  double loader_idle_share = 0;  ///< Share, 0..1, of the workers' time in which they had nothing to do.
  bool is_emulated = false;      ///< TrainOptions::is_emulated().
  bool learns = true;            ///< False with an emulated step: loss and accuracy then mean nothing.
  std::optional<double> test_loss = {}, test_accuracy = {};
  /// In step records of modes that send compressed gradients: StepSums::compression_error of the last step.
  std::optional<double> compression_error = {};
  /// Since the last record of this kind; nothing where NVML has not been asked. Memory: the most of any moment.
  std::optional<double> gpu_busy_percent = {};
  std::optional<int64_t> gpu_memory_bytes = {};
  std::vector<GpuSample> gpu_samples = {};  ///< Since the last record of any kind.
};

/// Errors: io_error. Thread-safety: for the training thread only.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const Metrics& metrics) = 0;
};

/// Where a run writes.
struct SinkContext {
  std::filesystem::path folder;  ///< The folder of the run.
  int64_t resumed_step = -1;     ///< Step of the checkpoint from which this run continues; negative: it starts anew.
  std::ostream& terminal;
  int64_t ended_epochs = INT64_MAX;  ///< Epochs whose ends had been recorded when that checkpoint was written.
};

struct SinkTraits {
  /// The name of the file that it writes in the folder of the run, or the begin of the names of its files followed by
  /// `*`. A run that starts anew removes these files. Empty: it writes none.
  std::string files = {};
};

/// Every run has one sink of each registered kind.
struct SinkKind {
  using Interface = Sink;
  using Traits = SinkTraits;
  static constexpr const char* kName = "sink";
  using Factory = std::function<std::unique_ptr<Sink>(const Spec&, const SinkContext&)>;
};
using SinkRegistry = Registry<SinkKind>;

/// One sink of each kind, in the order of their names. Throws what their constructors throw.
std::vector<std::unique_ptr<Sink>> make_sinks(const SinkContext& context);

/// The line of an epoch, without the line end: `Epoch [1/10], Loss: 0.5043, Dur: 3.1 s, load 0.4 ms, update 1.2 ms`.
std::string epoch_line(const Metrics& metrics);

/// The line of a step whose gradients were compressed, without the line end: `Epoch [1/10], step 100, Loss: 0.5043,
/// compression error 0.31`.
std::string compression_line(const Metrics& metrics);

}  // namespace penstock
