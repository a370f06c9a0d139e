// An emulated link: local files come with the delay and at the rate of a network, which sim_link() says.
#pragma once

#include <memory>

#include "loader/far/origin.h"

namespace penstock::detail {

/// Files of addresses `sim:PATH`. Bytes of all requests of the process pass one token bucket, which holds the bytes of
/// 5 ms: so that a thread that wakes late does not lose them.
std::unique_ptr<Origin> make_emulated_origin();

}  // namespace penstock::detail
