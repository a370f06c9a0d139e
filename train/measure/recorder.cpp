// Recorder: sums of phases, the processor time of the process, and the marks of the device.
#include "train/measure/recorder.h"

#include <numeric>
#include <utility>

#include "core/machine.h"
#include "train/measure/device_clock.h"

namespace penstock {
void StepTimes::add(const StepTimes& other, double factor) {
  for (size_t i = 0; i < phase.size(); ++i) phase[i] += factor * other.phase[i];
  collectives += factor * other.collectives;
  process_cpu += factor * other.process_cpu;
  queued += factor * other.queued;
  busy_cores += factor * other.busy_cores;
}

double StepTimes::total() const { return std::accumulate(phase.begin(), phase.end(), 0.0); }

Recorder::Recorder() { restart(); }
Recorder::~Recorder() = default;

void Recorder::use_device(const c10::Device& device) {
  if (!device.is_cpu()) device_clock_ = std::make_unique<detail::DeviceClock>(device);
  restart();
}

void Recorder::mark_device(Phase phase) {
  constexpr size_t kMostPending = 64;  // some eight steps; beyond that, the marks that the device has passed are read
  device_clock_->mark(phase, step_);
  if (device_clock_->pending() > kMostPending) device_clock_->read(times_, collectives_, false);
  if (!laps_) return;
  const int64_t now = now_ns();
  laps_->host.push_back({phase, 0, 0, last_ns_, now});
  last_ns_ = now;
}

void Recorder::restart() {
  if (laps_) settle_laps();
  times_ = {};
  start_cpu_ns_ = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
  start_queued_ns_ = queued_ns(this_thread());
  start_busy_ms_ = busy_cores_ms();
  if (device_clock_) device_clock_->restart(laps_ ? &laps_->device : nullptr);
  last_ns_ = now_ns();
}

StepTimes Recorder::times(bool is_complete) {
  if (device_clock_) device_clock_->read(times_, collectives_, is_complete);
  StepTimes times = times_;
  times.process_cpu = ms_of(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns_);
  times.queued = ms_of(queued_ns(this_thread()) - start_queued_ns_);
  if (is_complete)
    times.busy_cores = busy_cores_ms() - start_busy_ms_;  // it costs too much for each refresh of the progress bar
  return times;
}

void Recorder::keep_laps() {
  laps_ = std::make_unique<Laps>();
  restart();
}

void Recorder::number_laps(int64_t step, int64_t epoch) {
  for (auto lap = laps_->host.rbegin(); lap != laps_->host.rend() && lap->step == 0; ++lap) {
    lap->step = step;
    lap->epoch = epoch;
  }
  auto& messages = laps_->messages;
  for (auto message = messages.rbegin(); message != messages.rend() && message->step == 0; ++message)
    message->step = step;
}

void Recorder::settle_laps() {
  auto& host = laps_->host;
  const auto open = std::find_if(host.begin(), host.end(), [](const Lap& lap) { return lap.step == 0; });
  const bool goes_on = open != host.begin() && open != host.end() && std::prev(open)->end_ns == open->begin_ns;
  if (goes_on) number_laps(std::prev(open)->step, std::prev(open)->epoch);
  if (!goes_on) host.erase(open, host.end());
  std::erase_if(laps_->messages, [](const MessageEnd& message) { return message.step == 0; });
  if (!device_clock_) return;
  device_clock_->read(times_, collectives_, true);
  auto& device = laps_->device;  // one entry per lap of the host, in the same order
  device.resize(host.size());
  for (size_t i = 0; i < device.size(); ++i) {
    device[i].step = host[i].step;
    device[i].epoch = host[i].epoch;
  }
}

Laps Recorder::take_laps() {
  settle_laps();
  Laps laps = std::move(*laps_);
  laps_.reset();
  restart();
  return laps;
}

}  // namespace penstock
