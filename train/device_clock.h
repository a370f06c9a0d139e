// DeviceClock: the phases of a step as the device goes through them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <vector>

#include "train/recorder.h"

namespace penstock::detail {

/// Events with times in one stream, one a mark: the time between two belongs to the later one's phase. An event costs
/// the host about 1 us. Thread-safety: none.
class DeviceClock {
 public:
  explicit DeviceClock(const c10::Device& device);

  /// With `laps` it waits for the device, and read() adds what it reads to them too.
  void restart(std::vector<Lap>* laps = nullptr);
  void mark(Phase phase);
  size_t pending() const { return marks_.size(); }
  /// Adds what the device has passed to `times`; all of it when `is_complete`, which waits.
  void read(StepTimes& times, bool is_complete);

 private:
  struct Mark {
    Phase phase;
    c10::Event event;
  };
  c10::Event recorded();

  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
  std::deque<Mark> marks_;        // the first is passed, and what the next is measured from
  std::vector<c10::Event> free_;  // making one costs more than recording it
  std::vector<Lap>* laps_ = nullptr;
  double passed_ns_ = 0;  // when the device passed the first mark; known as long as there are laps
};

}  // namespace penstock::detail
