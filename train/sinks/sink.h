// Sink: the plug-in that takes a run's figures somewhere. One line of figures a print-freq steps and one an epoch.
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
#include "train/recorder.h"

namespace penstock {

/// Figures of a stretch of steps: those since the previous record of the same kind. Means and rates are over all ranks;
/// times are rank 0's.
struct Metrics {
  enum class Kind { kStep, kEpoch };

  Kind kind = Kind::kStep;
  int64_t epoch = 0, epoch_count = 0;  ///< The first epoch is 1 for people and for every sink.
  int64_t step = 0;                    ///< Steps done since the run began.
  double loss = 0;                     ///< Mean over the samples.
  double accuracy = 0;                 ///< Of the training samples, as they were when they were trained on.
  double learning_rate = 0;            ///< Of the last step.
  double seconds = 0;                  ///< Evaluation and checkpoints not counted.
  double images_per_second = 0;
  double load_ms = 0;            ///< A step: waiting for the batch and copying it.
  double update_ms = 0;          ///< A step: everything else.
  StepTimes a_step = {};         ///< Milliseconds a step, by phase.
  double ready_share = 0;        ///< Batches that stood ready when they were asked for, 0..1.
  double loader_idle_share = 0;  ///< Of the workers' time, 0..1.
  bool is_emulated = false;      ///< TrainOptions::is_emulated().
  bool learns = true;            ///< False with an emulated step: loss and accuracy are of nothing.
  std::optional<double> test_loss = {}, test_accuracy = {};
};

/// Errors: io_error. Thread-safety: the training thread's alone.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const Metrics& metrics) = 0;
};

/// Where a run writes.
struct SinkContext {
  std::filesystem::path folder;  ///< The run's.
  int64_t resumed_step = -1;     ///< Of the checkpoint that this run goes on from; below 0: it starts anew.
  std::ostream& terminal;
};

struct SinkTraits {
  /// The file that it writes in the run's folder, or how the names of its files begin, with a `*` for the rest; a run
  /// that starts anew removes them. Empty: it writes none.
  std::string files = {};
};

/// Every run has one of every sink that is registered.
struct SinkKind {
  using Interface = Sink;
  using Traits = SinkTraits;
  static constexpr const char* kName = "sink";
  using Factory = std::function<std::unique_ptr<Sink>(const Spec&, const SinkContext&)>;
};
using SinkRegistry = Registry<SinkKind>;

/// One of each, in the order of their names. Throws what their constructors throw.
std::vector<std::unique_ptr<Sink>> make_sinks(const SinkContext& context);

/// The line of an epoch, without the line end: `Epoch [1/10], Loss: 0.5043, Dur: 3.1 s, load 0.4 ms, update 1.2 ms`.
std::string epoch_line(const Metrics& metrics);

}  // namespace penstock
