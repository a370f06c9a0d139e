// DeviceClock: uses the events of c10, so that the same sources serve builds with and without CUDA.
#include "train/measure/device_clock.h"

#include <utility>

#include "core/clock.h"

namespace penstock::detail {

DeviceClock::DeviceClock(const c10::Device& device) : guard_(device.type()), stream_(guard_.getStream(device)) {
  restart();
}

c10::Event DeviceClock::recorded() {
  if (free_.empty()) free_.emplace_back(stream_.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  c10::Event event = std::move(free_.back());
  free_.pop_back();
  event.record(stream_);
  return event;
}

void DeviceClock::restart(std::vector<Lap>* laps) {
  for (auto& mark : marks_) free_.push_back(std::move(mark.event));
  marks_.clear();
  mark(Phase::kOther);
  laps_ = laps;
  if (laps_ == nullptr) return;
  marks_.back().event.synchronize();
  passed_ns_ = static_cast<double>(now_ns());
}

void DeviceClock::mark(Phase phase, int64_t step) { marks_.push_back({phase, step, recorded()}); }

void DeviceClock::read(StepTimes& times, CollectiveTimes& collectives, bool is_complete) {
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

}  // namespace penstock::detail
