// Meeting: what ranks compare while they meet, and who hears for whom they wait.
#pragma once

#include <functional>
#include <string>

#include "train/rendezvous/run_fingerprint.h"

namespace penstock {

struct Meeting {
  RunFingerprint fingerprint;                                               ///< Must be equal at all ranks.
  std::function<void(const std::string&)> log = [](const std::string&) {};  ///< Hears who is waited for, see meet().
  double log_after_seconds = 10;                                            ///< Then after twice and four times that.
};

}  // namespace penstock
