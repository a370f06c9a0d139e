// Tokens: what a launcher tells its ranks, so that they can tell each other from strangers.
#include "train/rendezvous/token.h"

#include <random>

#include "core/number_text.h"

namespace penstock {

std::string random_token() {
  std::random_device source;  // the kernel's
  std::string token;
  for (int word = 0; word < 4; ++word) token += printed("%08x", source());
  return token;
}

}  // namespace penstock
