// Address: names of hosts and interfaces as socket addresses, and sockets that listen and connect.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

namespace penstock::detail {

bool is_loopback(const std::string& host);  ///< localhost, 127.x.x.x, ::1

/// A socket address of either family; its port is 0 until one is set.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  void set_port(int port);
  std::string text() const;  ///< "10.0.0.7", "fe80::1"
};

/// The addresses of a name or of a literal address, each once. Throws device_error `rendezvous: --dist-url's host ...`
/// at once when the name does not resolve.
std::vector<Address> resolve(const std::string& host);

/// The first address, IPv4 before IPv6, of a network interface. Throws config_error that lists the interfaces there
/// are.
Address address_of_interface(const std::string& name);

/// What rank 0 listens on. A loopback host, where all ranks are on one machine: its address. Otherwise the interface's
/// address where one is named; without one the host's address alone, where the host is an address or a name of exactly
/// one that is no loopback address; nothing, which means every interface, for 0.0.0.0, :: and other names: many machines
/// resolve their own name to 127.0.1.1, where no other one would reach them.
std::optional<Address> address_to_listen_on(const std::string& host, const std::string& interface);

/// A TCP socket that listens at the address and port (0: any free one), on every interface without an address; the
/// caller closes it. Throws device_error.
int listen_at(const std::optional<Address>& address, int port);
int port_of(int socket);

/// Whether somebody accepts connections at one of the host's addresses, within `timeout_ms` for each. The connection
/// is closed again.
bool is_listening(const std::string& host, int port, int timeout_ms);

}  // namespace penstock::detail
