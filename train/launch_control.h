// Control: stop signals for a rank on another machine, which come through its stdin.
#pragma once

namespace penstock::detail {

/// Starts a thread that reads stdin. Each byte is the number of a signal, which this process then gets; the end of
/// stdin means that the launcher or the connection to it is gone, and kills this process. ssh passes no signals on, and
/// a program that it has started outlives it.
void obey_stdin();

}  // namespace penstock::detail
