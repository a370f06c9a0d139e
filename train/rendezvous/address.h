// Address: names of hosts and interfaces as socket addresses, and sockets that listen and connect.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace penstock::detail {

bool is_loopback(const std::string& host);  ///< localhost, 127.x.x.x, ::1

/// "Network is unreachable" where this machine does not reach itself at 127.0.0.1, because its loopback interface is
/// down; "" where it does.
std::string loopback_problem();

/// What is expected of the host at which ranks meet. A name that only ssh knows, of a hostfile, is none.
inline constexpr const char* kResolvableText =
    "a name of rank 0's machine that every rank can resolve, or its address (--dist-url tcp://IP:PORT)";

/// A socket address of either family; its port is 0 until one is set.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  void set_port(int port);
  std::string text() const;  ///< "10.0.0.7", "fe80::1"
};

/// The addresses of a name or of a literal address, each once. Throws device_error `rendezvous: HOST: ...` at once when
/// the name does not resolve.
std::vector<Address> resolve(const std::string& host);

/// The addresses of a name that may have none yet: while the machines of a job start, name servers may not know it or
/// not answer.
class Lookup {
 public:
  explicit Lookup(std::string host) : host_(std::move(host)) {}
  /// What the name resolves to. Asks once a second at most, otherwise gives the last answer. Empty as long as name
  /// servers cannot say (EAI_AGAIN); then failure() says why. Throws as resolve() for a name that does not exist.
  const std::vector<Address>& addresses();
  const std::string& failure() const { return failure_; }

 private:
  std::string host_, failure_;
  std::vector<Address> addresses_;
  std::optional<std::chrono::steady_clock::time_point> asked_;
};

/// The first address, IPv4 before IPv6, of a network interface. Throws config_error that lists the interfaces there
/// are.
Address address_of_interface(const std::string& name);

/// What rank 0 listens on. A loopback host, where all ranks are on one machine: its address. Otherwise the interface's
/// address where one is named; without one the host's address alone, where the host is an address or a name of exactly
/// one that is no loopback address; nothing, which means every interface, for 0.0.0.0, :: and other names: many
/// machines resolve their own name to 127.0.1.1, where no other one would reach them. `resolve_host` is called where
/// the host's addresses count.
std::optional<Address> address_to_listen_on(
    const std::string& host, const std::string& interface,
    const std::function<std::vector<Address>(const std::string&)>& resolve_host = resolve);

/// A TCP socket that listens at the address and port (0: any free one), on every interface without an address; the
/// caller closes it. Throws device_error.
int listen_at(const std::optional<Address>& address, int port);
int port_of(int socket);

/// This machine's end of a connection to the address and port; nothing if nobody accepts one within `timeout_ms`. The
/// connection is closed again.
std::optional<Address> try_connect(Address address, int port, int timeout_ms);

}  // namespace penstock::detail
