// Recorder: sums, the process's use of the processors, and the device's marks.
#include "train/recorder.h"

#include <cstdio>
#include <numeric>

#include "train/device_clock.h"

namespace penstock {
namespace {

/// How long this thread could run and had no core (proc(5), schedstat: time on the processor, time queued, slices); 0
/// where the kernel does not say.
int64_t queued_ns() {
  std::FILE* const file = std::fopen("/proc/thread-self/schedstat", "re");
  long long on_cpu = 0, queued = 0;
  const bool is_known = file != nullptr && std::fscanf(file, "%lld %lld", &on_cpu, &queued) == 2;
  if (file != nullptr) std::fclose(file);
  return is_known ? queued : 0;
}

}  // namespace

void StepTimes::add(const StepTimes& other, double factor) {
  for (size_t i = 0; i < phase.size(); ++i) phase[i] += factor * other.phase[i];
  collectives += factor * other.collectives;
  process_cpu += factor * other.process_cpu;
  queued += factor * other.queued;
}

double StepTimes::total() const { return std::accumulate(phase.begin(), phase.end(), 0.0); }

Recorder::Recorder() { restart(); }
Recorder::~Recorder() = default;

void Recorder::use_device(const c10::Device& device) {
  if (!device.is_cpu()) device_clock_ = std::make_unique<detail::DeviceClock>(device);
  restart();
}

void Recorder::mark_device(Phase phase) { device_clock_->mark(phase); }

void Recorder::restart() {
  times_ = {};
  start_cpu_ns_ = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
  start_queued_ns_ = queued_ns();
  if (device_clock_) device_clock_->restart();
  last_ns_ = now_ns();
}

StepTimes Recorder::times(bool is_complete) {
  if (device_clock_) device_clock_->read(times_, is_complete);
  StepTimes times = times_;
  times.process_cpu = static_cast<double>(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns_) * 1e-6;
  times.queued = static_cast<double>(queued_ns() - start_queued_ns_) * 1e-6;
  return times;
}

}  // namespace penstock
