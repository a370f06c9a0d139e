// Tokens: what a launcher tells its ranks, so that they can tell each other from strangers.
#include "train/rendezvous/token.h"

#include <cstdio>
#include <random>

namespace penstock {

std::string random_token() {
  std::random_device source;  // the kernel's
  std::string token;
  for (int word = 0; word < 4; ++word) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(source()));
    token += digits;
  }
  return token;
}

}  // namespace penstock
