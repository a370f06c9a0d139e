// train_epochs(): the training loop, the same for every mode, device and number of ranks.
//
// Lives here: what happens between the first step and the last: epochs, evaluation, predictions, stop signals, the
// CUDA graph of a step, profiles, progress.
// Not here: one step (train/parallel), and what comes before and after (train/run).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/comm/comm.h"
#include "train/feed/feeder.h"
#include "train/loop/evaluate.h"
#include "train/loop/profile.h"
#include "train/loop/progress.h"
#include "train/measure/recorder.h"
#include "train/options/options.h"
#include "train/parallel/strategy/strategy.h"
#include "train/sinks/sink.h"

namespace penstock {

/// What the loop works with. All parts outlive it. Every rank makes the calls that are marked collective, at the same
/// steps.
struct TrainParts {
  Strategy& strategy;
  Comm& comm;
  Feeder& feeder;
  Recorder& recorder;
  torch::Device device;
  ProgressBar* progress = nullptr;                 ///< At rank 0 on a terminal; elsewhere null.
  std::function<void(const Metrics&)> on_metrics;  ///< At rank 0; elsewhere empty.
  /// Collective; empty: there is nothing to evaluate on. The second argument is EvaluationCalls::goes_on.
  std::function<std::optional<Evaluation>(int64_t epoch, const std::function<bool()>& goes_on)> evaluate;
  enum class Save { kLast, kBest };
  std::function<void(const Position&, Save)> save;   ///< Collective; empty: there are no checkpoints.
  Profile* profile = nullptr;                        ///< Given at every rank or at none.
  std::function<void(const std::string&)> log = {};  ///< Hears lines for people; empty: nobody reads them.
  std::function<void()> after_first_step = {};       ///< Called in this process; may be empty.
  bool counts_hits = true;                           ///< Whether the model is trained on classes.
};

struct TrainResult {
  Position position;                  ///< The position after the last step.
  int stop_signal = 0;                ///< The signal that stopped the run, which then saved; 0: none.
  double train_seconds = 0;           ///< All steps of this process, without evaluations and checkpoints.
  std::vector<double> epoch_seconds;  ///< One entry per epoch of this process, without evaluations and checkpoints.
  double load_ms_per_step = 0, update_ms_per_step = 0, images_per_second = 0;
  StepTimes a_step;                          ///< Mean milliseconds per step of this process.
  std::vector<StepCollectives> collectives;  ///< As Recorder::collectives_of_steps().
  LoaderStatistics loader;                   ///< Those of this rank at the end of the run.
  int64_t step_count = 0;                    ///< Steps of this process.
  int64_t replay_count = 0;                  ///< How many of them were replays of a graph on the device.
  std::optional<Evaluation> evaluation;      ///< The last one, if it was made with the final parameters.
  std::optional<Evaluation> of_weights;      ///< With it, beside an average: that of the weights.
};

/// Trains from `start` to the end of the last epoch, or to a stop signal.
///
/// Within an epoch it waits for the device only every --print-freq steps, and before it shows the progress bar; until
/// then the sums stay on the device. Loss and accuracy are sums over all ranks, divided by the true number of samples.
/// Checkpoints are written every --save-every steps or epochs and at the end, with --epochs 0 that of the beginning; if
/// the step is the last one of an epoch, after the evaluation of that epoch. After a stop signal it saves and returns.
/// If the signal comes before an evaluation has ended, its result is not in the checkpoint, whose position is then the
/// end of the epoch: a run that starts there begins with the evaluation.
///
/// With --graph the steps are captured (CudaGraphStep), or `log` hears why they are not.
///
/// Errors: config_error at every rank as soon as it reads a loss that is not finite: the run has diverged, and nothing
/// more is saved.
TrainResult train_epochs(const TrainParts& parts, const TrainOptions& options, const Position& start);

}  // namespace penstock
