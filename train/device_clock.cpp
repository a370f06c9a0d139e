// DeviceClock: c10's events, so that the same sources serve builds with and without CUDA.
#include "train/device_clock.h"

#include <utility>

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

void DeviceClock::restart() {
  for (auto& mark : marks_) free_.push_back(std::move(mark.event));
  marks_.clear();
  mark(Phase::kOther);
}

void DeviceClock::mark(Phase phase) { marks_.push_back({phase, recorded()}); }

void DeviceClock::read(StepTimes& times, bool is_complete) {
  if (is_complete) marks_.back().event.synchronize();
  while (marks_.size() > 1 && marks_[0].event.query() && marks_[1].event.query()) {
    times[marks_[1].phase] += marks_[0].event.elapsedTime(marks_[1].event);
    free_.push_back(std::move(marks_[0].event));
    marks_.pop_front();
  }
}

}  // namespace penstock::detail
