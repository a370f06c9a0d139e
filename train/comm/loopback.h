// Loopback: addresses and sockets that no other machine reaches.
#pragma once

#include <string>

namespace penstock::detail {

bool is_loopback(const std::string& host);  ///< localhost, 127.x.x.x, ::1

/// A TCP socket that listens on 127.0.0.1:port, port 0 for any free one; the caller closes it. Throws device_error.
int listen_on_loopback(int port);
int port_of(int socket);

}  // namespace penstock::detail
