// train_epochs(): the training loop, the same for every mode, device and number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "train/checkpoint.h"
#include "train/comm/comm.h"
#include "train/evaluate.h"
#include "train/feeder.h"
#include "train/options.h"
#include "train/profile.h"
#include "train/progress.h"
#include "train/recorder.h"
#include "train/sinks/sink.h"
#include "train/strategies/strategy.h"

namespace penstock {

/// What the loop works with; all outlive it. Calls marked collective are made by every rank, at the same steps.
struct TrainParts {
  Strategy& strategy;
  Comm& comm;
  Feeder& feeder;
  Recorder& recorder;
  torch::Device device;
  ProgressBar* progress = nullptr;                    ///< Rank 0 on a terminal.
  std::function<void(const Metrics&)> on_metrics;     ///< Rank 0; elsewhere empty.
  std::function<Evaluation(int64_t epoch)> evaluate;  ///< Collective; empty: nothing to evaluate on.
  enum class Save { kLast, kBest };
  std::function<void(const Position&, Save)> save;  ///< Collective; empty: no checkpoints.
  Profile* profile = nullptr;                       ///< At every rank or at none.
};

struct TrainResult {
  Position position;                  ///< Behind the last step.
  int stop_signal = 0;                ///< The one that stopped the run, which was saved; 0: none.
  double train_seconds = 0;           ///< Of all steps of this process; evaluation and checkpoints not counted.
  std::vector<double> epoch_seconds;  ///< Of the epochs of this process; evaluation and checkpoints not counted.
  double load_ms_per_step = 0, update_ms_per_step = 0, images_per_second = 0;
  StepTimes a_step;                      ///< Milliseconds a step of this process.
  LoaderStatistics loader;               ///< Of this rank, as the run ended.
  int64_t step_count = 0;                ///< Of this process.
  std::optional<Evaluation> evaluation;  ///< The last one, when it is of the final parameters.
};

/// Trains from `start` to the end of the last epoch, or to a stop signal.
///
/// Within an epoch the device is waited for every print-freq steps alone, and before a line of the progress bar: sums
/// stay on it until then. Loss and
/// accuracy are sums over all ranks divided by the true number of samples. Checkpoints are written every save-every
/// steps or epochs, and at the end; a step that is an epoch's last is saved behind that epoch's evaluation. A signal
/// saves and returns.
///
/// Errors: config_error, at every rank, as soon as a loss that is not finite is read: the run diverged, and nothing is
/// saved from there on.
TrainResult train_epochs(const TrainParts& parts, const TrainOptions& options, const Position& start);

}  // namespace penstock
