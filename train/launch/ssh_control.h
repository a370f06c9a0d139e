// Control: the token of the run and stop signals for a rank on another machine, which come through its stdin.
#pragma once

#include <cstddef>
#include <string>

namespace penstock::detail {

constexpr size_t kTokenBytes = 32;  ///< The length of a random_token().

/// Reads the token that comes first, and starts a thread that reads the rest of stdin. Each byte is the number of a
/// signal, which this process then gets; the end of stdin means that the launcher or the connection to it is gone, and
/// kills this process. ssh passes no signals on, and a program that it has started outlives it. Returns the token:
/// other users of a machine can read command lines, but not this. Throws config_error if none comes.
std::string watch_stdin();

}  // namespace penstock::detail
