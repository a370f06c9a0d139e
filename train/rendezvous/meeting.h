// Meeting: what ranks tell each other, and people, while they meet.
#pragma once

#include <functional>
#include <string>

#include "train/rendezvous/run_fingerprint.h"

namespace penstock {

struct StoreRendezvous {
  RunFingerprint terms;                                                     ///< Must be equal at all ranks.
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< Hears who is waited for, see meet().
  double say_after_seconds = 10;                                            ///< Then after twice and four times that.
};

}  // namespace penstock
