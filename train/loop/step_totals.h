// Step totals: what the loop adds up over steps.
#pragma once

#include <cstdint>

#include "train/measure/recorder.h"

namespace penstock {

/// The times and counts of some steps.
struct TimeTotals {
  StepTimes ms;
  int64_t step_count = 0, sample_count = 0;

  void add(const TimeTotals& other) {
    ms.add(other.ms);
    step_count += other.step_count;
    sample_count += other.sample_count;
  }
  double total_ms() const { return ms.total(); }
  double load_ms() const { return ms[Phase::kWait] + ms[Phase::kHostToDevice]; }
  double per_step(double total) const { return step_count > 0 ? total / static_cast<double>(step_count) : 0; }
  StepTimes mean_step() const {
    StepTimes mean;
    mean.add(ms, step_count > 0 ? 1.0 / static_cast<double>(step_count) : 0);
    return mean;
  }
  double images_per_second() const { return total_ms() > 0 ? 1e3 * static_cast<double>(sample_count) / total_ms() : 0; }
};

/// Sums over samples; after a reduction, over those of all ranks.
struct SampleTotals {
  double loss = 0;
  int64_t correct_count = 0, sample_count = 0;

  double mean_loss() const { return sample_count > 0 ? loss / static_cast<double>(sample_count) : 0; }
};

}  // namespace penstock
