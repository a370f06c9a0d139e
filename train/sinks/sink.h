// Sink: where a run's figures go. One line of figures a print-freq steps and one an epoch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

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

/// The three files of a run's folder, `resumed_step` as in open_log().
std::unique_ptr<Sink> make_jsonl_sink(const std::filesystem::path& folder, int64_t resumed_step);
std::unique_ptr<Sink> make_csv_sink(const std::filesystem::path& folder, int64_t resumed_step);
/// FOLDER/events.out.tfevents.<seconds>.<host>.<process>: a file of its own for every start, as TensorBoard wants it.
std::unique_ptr<Sink> make_tensorboard_sink(const std::filesystem::path& folder);
/// One line an epoch: `Epoch [1/10], Loss: 0.5043, Dur: 3.1 s, load 0.4 ms, update 1.2 ms`.
std::unique_ptr<Sink> make_terminal_sink(std::ostream& out);

/// That line, without the line end.
std::string epoch_line(const Metrics& metrics);

}  // namespace penstock
