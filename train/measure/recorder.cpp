// Recorder: sums of phases, the processor time of the process, and the marks of the device.
#include "train/measure/recorder.h"

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <numeric>

#include "core/machine.h"

namespace penstock {

/// Times the phases of a step on the device, by events of c10, so that the same source serves builds with and without
/// CUDA. Each mark records an event in one stream. The time between two marks belongs to the phase of the later one. An
/// event costs the host about 1 us.
class detail::DeviceClock {
 public:
  explicit DeviceClock(const c10::Device& device) : guard_(device.type()), stream_(guard_.getStream(device)) {
    restart();
  }

  /// Forgets all marks and sets a first one. With `laps` it waits for the device, and read() also adds a lap to `laps`
  /// for each mark that it reads.
  void restart(std::vector<Lap>* laps = nullptr) {
    for (auto& mark : marks_) free_.push_back(std::move(mark.event));
    marks_.clear();
    mark(Phase::kOther);
    laps_ = laps;
    if (laps_ == nullptr) return;
    marks_.back().event.synchronize();
    passed_ns_ = static_cast<double>(now_ns());
  }

  void mark(Phase phase, int64_t step = 0) { marks_.push_back({phase, step, recorded()}); }
  size_t pending() const { return marks_.size(); }

  /// Adds to `times` the laps that the device has finished, and to `collectives` those of communication. With
  /// `is_complete` it waits for the device and adds all of them.
  void read(StepTimes& times, CollectiveTimes& collectives, bool is_complete) {
    if (is_complete) marks_.back().event.synchronize();
    while (marks_.size() > 1 && marks_[0].event.query() && marks_[1].event.query()) {
      const double elapsed_ms = marks_[0].event.elapsedTime(marks_[1].event);
      times[marks_[1].phase] += elapsed_ms;
      if (marks_[1].phase == Phase::kCommunication)
        collectives.add(marks_[1].step, {.exposed = static_cast<float>(elapsed_ms)});
      if (laps_ != nullptr) {
        const double begin_ns = std::exchange(passed_ns_, passed_ns_ + elapsed_ms * 1e6);
        laps_->push_back({marks_[1].phase, 0, 0, static_cast<int64_t>(begin_ns), static_cast<int64_t>(passed_ns_)});
      }
      free_.push_back(std::move(marks_[0].event));
      marks_.pop_front();
    }
  }

 private:
  struct Mark {
    Phase phase;
    int64_t step;
    c10::Event event;
  };

  c10::Event recorded() {
    if (free_.empty()) free_.emplace_back(stream_.device_type(), c10::EventFlag::BACKEND_DEFAULT);
    c10::Event event = std::move(free_.back());
    free_.pop_back();
    event.record(stream_);
    return event;
  }

  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
  std::deque<Mark> marks_;        // the first one is where the lap of the second begins
  std::vector<c10::Event> free_;  // kept because making an event costs more than recording it
  std::vector<Lap>* laps_ = nullptr;
  double passed_ns_ = 0;  // when the device passed the first mark; known only while laps are kept
};

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
