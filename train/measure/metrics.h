// Metrics: the figures of some steps, or of an epoch, which sinks write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/measure/recorder.h"

namespace penstock {

/// What NVML says of the GPU of rank 0 at one moment.
struct GpuSample {
  double seconds = 0;              ///< Since this process began to sample, shortly before its first step.
  double busy_percent = 0;         ///< Share of the last 1/6 s or more in which a kernel ran.
  double memory_busy_percent = 0;  ///< Share of it in which device memory was read or written.
  int64_t memory_bytes = 0, memory_total_bytes = 0;  ///< Counts all processes of the GPU.
};

/// The figures of the steps since the previous record of the same kind. Means and rates are over all ranks; times are
/// those of rank 0.
struct Metrics {
  enum class Kind { kStep, kEpoch };

  Kind kind = Kind::kStep;
  int64_t epoch = 0, epoch_count = 0;  ///< The first epoch is 1 in all sinks.
  int64_t step = 0;                    ///< Steps done since the run began.
  double loss = 0;                     ///< Mean over the samples.
  /// On the training samples, when they were trained on; nothing where the model is not trained on classes.
  std::optional<double> accuracy = 0;
  double learning_rate = 0;  ///< That of the last step.
  double seconds = 0;        ///< Without evaluations and checkpoints.
  double images_per_second = 0;
  double load_ms = 0;            ///< Per step: waiting for the batch and copying it.
  double update_ms = 0;          ///< Per step: everything else.
  StepTimes a_step = {};         ///< Milliseconds per step, by phase.
  double ready_share = 0;        ///< Share, 0..1, of the batches that were ready when they were asked for.
  double loader_idle_share = 0;  ///< Share, 0..1, of the workers' time in which they had nothing to do.
  /// How data came from far away to the process of rank 0: bytes per second while bytes came, and the time for which
  /// threads waited for shards, per step. Nothing where all data are local.
  std::optional<double> link_bytes_per_second = {}, link_stall_ms = {};
  bool is_emulated = false;  ///< is_emulated().
  bool learns = true;        ///< False with an emulated step: loss and accuracy then mean nothing.
  std::optional<double> test_loss = {}, test_accuracy = {};
  /// Other metrics: "mean_average_precision"; and beside an average of the weights "accuracy_of_weights".
  std::vector<std::pair<std::string, double>> test_scores = {};
  /// In step records of modes that send compressed gradients: StepSums::compression_error of the last step.
  std::optional<double> compression_error = {};
  /// The norm of the gradients of each step since the last record of any kind, before they were clipped. Empty without
  /// --clip-grad.
  std::vector<double> gradient_norms = {};
  /// Since the last record of this kind; nothing where NVML has not been asked. Memory: the most of any moment.
  std::optional<double> gpu_busy_percent = {};
  std::optional<int64_t> gpu_memory_bytes = {};
  std::vector<GpuSample> gpu_samples = {};  ///< Since the last record of any kind.
};

}  // namespace penstock
