// Machine id: whether two processes are on one machine.
#pragma once

#include <cstdint>

namespace penstock::detail {

/// The same number for all processes that see each other's /proc and network. Whoever gives ranks networks of their own
/// wants machines of their own.
int64_t machine_id();

}  // namespace penstock::detail
