// Stop signals: SIGINT, SIGTERM and SIGHUP, remembered until the step that is under way has ended.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>

namespace penstock {

/// The signals that end a run with a checkpoint. SIGHUP comes when its terminal is closed.
inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP};

/// A signal this long after the first one is a person's second one; sooner it is the same one, as launchers and the
/// terminal both send it.
constexpr int64_t kSecondSignalMs = 1000;

/// All stop signals are, but SIGHUP where it was ignored before this process began: nohup means to outlive a terminal.
bool is_heeded(int signal);

/// While it lives, stop signals are remembered instead of ending the process; a second SIGINT ends it. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static int received();  ///< The first that came, or 0.
};

}  // namespace penstock
