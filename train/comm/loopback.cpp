// Loopback: plain sockets.
#include "train/comm/loopback.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

int listen_on_loopback(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_listening = socket >= 0 && setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                            bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                            listen(socket, SOMAXCONN) == 0;
  if (is_listening) return socket;
  const std::string reason = std::strerror(errno);
  if (socket >= 0) close(socket);
  throw device_error(concat("rendezvous: cannot listen on 127.0.0.1:", port, ": ", reason, "; expected a free port"));
}

int port_of(int socket) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

}  // namespace penstock::detail
