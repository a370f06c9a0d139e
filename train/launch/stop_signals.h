// Stop signals: SIGINT, SIGTERM and SIGHUP, remembered until the current step has ended.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>

namespace penstock {

/// The signals after which a run saves a checkpoint and ends. SIGHUP comes when the terminal is closed.
inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP};

/// A signal that comes this long after the first one, or later, is a second one by a person. If it comes sooner it
/// counts as the same one, because a launcher and the terminal may both send it.
constexpr int64_t kSecondSignalMs = 1000;

/// Whether this process reacts to a stop signal. Only SIGHUP may be ignored, if it was ignored before this process
/// started: with nohup, a process shall outlive its terminal.
bool is_heeded(int signal);

/// While one of these lives, stop signals are remembered instead of ending the process; a second SIGINT ends it.
/// Threads that are ranks have one each.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static int received();  ///< The first signal that came while one of these lived, or 0.
};

}  // namespace penstock
