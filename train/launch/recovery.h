// Recovery: the seconds from the failure of a rank to the next step of its run.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace penstock {

using FailureTime = std::chrono::system_clock::time_point;

/// The variable that tells the ranks which are started next, also by ssh, when a rank had failed: seconds since 1970.
inline constexpr char kFailureVariable[] = "PENSTOCK_FAILED_AT";

/// Sets kFailureVariable of this process, whose children get it.
void tell_failure(FailureTime failed);

/// The seconds that have passed since the failure for which this process was started, by the clocks of both machines.
/// Nothing if it was started for none, if the clocks differ by more than has passed, and from a week on.
std::optional<double> seconds_since_failure();

/// "recovered: the next step was done 2.9 s after a rank had failed", of seconds_since_failure().
std::optional<std::string> recovery_text();

}  // namespace penstock
