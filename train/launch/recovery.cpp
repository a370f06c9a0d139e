// Recovery: a time in the environment.
#include "train/launch/recovery.h"

#include <cstdlib>

#include "core/number.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

using Seconds = std::chrono::duration<double>;

}  // namespace

void tell_failure(FailureTime failed) {
  setenv(kFailureVariable, std::to_string(Seconds(failed.time_since_epoch()).count()).c_str(), /*overwrite=*/1);
}

std::optional<double> seconds_since_failure() {
  const char* const text = std::getenv(kFailureVariable);
  if (text == nullptr) return {};
  constexpr double kMost = 7 * 24 * 3600;  // a variable that is older is not of this run
  const auto failed = parse_number<double>(text, std::chars_format::fixed);
  if (!failed) return {};
  const double passed = Seconds(std::chrono::system_clock::now().time_since_epoch()).count() - *failed;
  return passed >= 0 && passed < kMost ? std::optional(passed) : std::nullopt;
}

std::optional<std::string> recovery_text() {
  const auto seconds = seconds_since_failure();
  if (!seconds) return {};
  return concat("recovered: the next step was done ", seconds_text(*seconds), " after a rank had failed");
}

}  // namespace penstock
