// DeviceClock: times the phases of a step on the device.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <vector>

#include "train/measure/collective_times.h"
#include "train/measure/phase.h"

namespace penstock::detail {

/// Each mark records an event with a time in one stream. The time between two marks belongs to the phase of the later
/// one. An event costs the host about 1 us. Thread-safety: none.
class DeviceClock {
 public:
  explicit DeviceClock(const c10::Device& device);

  /// Forgets all marks and sets a first one. With `laps` it waits for the device, and read() also adds a lap to `laps`
  /// for each mark that it reads.
  void restart(std::vector<Lap>* laps = nullptr);
  void mark(Phase phase, int64_t step = 0);
  size_t pending() const { return marks_.size(); }
  /// Adds to `times` the laps that the device has finished, and to `collectives` those of communication. With
  /// `is_complete` it waits for the device and adds all of them.
  void read(StepTimes& times, CollectiveTimes& collectives, bool is_complete);

 private:
  struct Mark {
    Phase phase;
    int64_t step;
    c10::Event event;
  };
  c10::Event recorded();

  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
  std::deque<Mark> marks_;        // the first one is where the lap of the second begins
  std::vector<c10::Event> free_;  // kept because making an event costs more than recording it
  std::vector<Lap>* laps_ = nullptr;
  double passed_ns_ = 0;  // when the device passed the first mark; known only while laps are kept
};

}  // namespace penstock::detail
