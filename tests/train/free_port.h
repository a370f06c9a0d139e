// A port of the loopback that nobody listens on.
#pragma once

#include <unistd.h>

#include "train/rendezvous/address.h"

namespace penstock {

inline int listen_on_loopback() { return detail::listen_at(detail::resolve("127.0.0.1").front(), 0); }

inline int free_port() {
  const int socket = listen_on_loopback();
  const int port = detail::port_of(socket);
  close(socket);
  return port;
}

}  // namespace penstock
