// Recovery: a time in the environment.
#include "train/launch/recovery.h"

#include <cstdlib>
#include <string>

namespace penstock {
namespace {

using Seconds = std::chrono::duration<double>;

}  // namespace

void tell_failure(FailureTime failed) {
  setenv(kFailureVariable, std::to_string(Seconds(failed.time_since_epoch()).count()).c_str(), /*overwrite=*/1);
}

std::optional<double> seconds_since_failure() {
  const char* text = std::getenv(kFailureVariable);
  if (text == nullptr) return {};
  char* end = nullptr;
  const double failed = std::strtod(text, &end);
  const double passed = Seconds(std::chrono::system_clock::now().time_since_epoch()).count() - failed;
  return end != text && *end == 0 && passed >= 0 ? std::optional(passed) : std::nullopt;
}

}  // namespace penstock
