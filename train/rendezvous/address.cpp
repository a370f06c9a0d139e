// Address: getaddrinfo, getifaddrs and plain sockets.
#include "train/rendezvous/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

Address copy_of(const sockaddr* address, socklen_t length) {
  Address copy;
  std::memcpy(&copy.storage, address, length);
  copy.length = length;
  return copy;
}

/// in6addr_any takes IPv4 connections too; a machine without IPv6 has 0.0.0.0 alone.
Address every_interface(int family) {
  Address any;
  any.storage.ss_family = static_cast<sa_family_t>(family);
  any.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return any;
}

/// The listening socket, or -1 with errno.
int try_listen(Address address, int port) {
  address.set_port(port);
  const int socket = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const int on = 1, off = 0;
  if (address.storage.ss_family == AF_INET6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      bind(socket, reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0 &&
      listen(socket, SOMAXCONN) == 0)
    return socket;
  const int reason = errno;
  close(socket);
  errno = reason;
  return -1;
}

bool is_literal(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 || inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

/// getaddrinfo()'s code; the addresses, each once, are put into `addresses` where it is 0.
int look_up(const std::string& host, std::vector<Address>& addresses) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) return code;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  addresses.clear();
  for (; found != nullptr; found = found->ai_next) {
    const Address address = copy_of(found->ai_addr, found->ai_addrlen);
    const auto is_equal = [&](const Address& other) { return other.text() == address.text(); };
    if (std::none_of(addresses.begin(), addresses.end(), is_equal)) addresses.push_back(address);
  }
  return 0;
}

Error no_address_error(const std::string& host, int code) {
  return device_error(concat("rendezvous: ", host, ": ", gai_strerror(code), "; expected ", kResolvableText));
}

}  // namespace

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::string loopback_problem() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);  // any: nothing is sent
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_wrong = socket < 0 || connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;
  const std::string problem = is_wrong ? std::strerror(errno) : "";
  if (socket >= 0) close(socket);
  return problem;
}

void Address::set_port(int port) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (storage.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = number;
  else
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = number;
}

std::string Address::text() const {
  char host[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&storage), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

std::vector<Address> resolve(const std::string& host) {
  std::vector<Address> addresses;
  if (const int code = look_up(host, addresses); code != 0) throw no_address_error(host, code);
  return addresses;
}

const std::vector<Address>& Lookup::addresses() {
  constexpr std::chrono::seconds kAskEvery{1};
  if (asked_ && std::chrono::steady_clock::now() < *asked_ + kAskEvery) return addresses_;
  const int code = look_up(host_, addresses_);
  asked_ = std::chrono::steady_clock::now();
  if (code != 0 && code != EAI_AGAIN && addresses_.empty()) throw no_address_error(host_, code);
  failure_ = addresses_.empty() ? gai_strerror(code) : "";
  return addresses_;
}

Address address_of_interface(const std::string& name) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) throw errno_error("--interface " + name, "expected a list of network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<std::string> known;
  std::optional<Address> v4, v6;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (std::find(known.begin(), known.end(), entry->ifa_name) == known.end()) known.emplace_back(entry->ifa_name);
    if (entry->ifa_name != name) continue;
    auto& address = family == AF_INET ? v4 : v6;
    if (!address) address = copy_of(entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  }
  if (!v4 && !v6) throw config_error(concat("--interface: ", unknown_name("interface", name, known)));
  return v4 ? *v4 : *v6;
}

std::optional<Address> address_to_listen_on(
    const std::string& host, const std::string& interface,
    const std::function<std::vector<Address>(const std::string&)>& resolve_host) {
  if (!interface.empty() && !is_loopback(host)) return address_of_interface(interface);
  if (host == "0.0.0.0" || host == "::") return std::nullopt;
  const auto addresses = resolve_host(host);
  if (host == "localhost") return addresses.front();
  if (is_literal(host)) return addresses.front();
  if (addresses.size() == 1 && !is_loopback(addresses.front().text())) return addresses.front();
  return std::nullopt;
}

int listen_at(const std::optional<Address>& address, int port) {
  int socket = try_listen(address.value_or(every_interface(AF_INET6)), port);
  if (socket < 0 && !address && errno != EADDRINUSE) socket = try_listen(every_interface(AF_INET), port);
  if (socket >= 0) return socket;
  const std::string reason = std::strerror(errno);
  const std::string advice =
      errno == EADDRNOTAVAIL ? "an address of this machine, where rank 0 runs" : "a free port, and one rank 0";
  throw device_error(concat("rendezvous: cannot listen on ", address ? address->text() : "any interface", ":", port,
                            ": ", reason, "; expected ", advice));
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::optional<Address> try_connect(Address address, int port, int timeout_ms) {
  address.set_port(port);
  const int socket = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return std::nullopt;
  int error = 0;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    error = errno;
    pollfd writable{.fd = socket, .events = POLLOUT, .revents = 0};
    socklen_t length = sizeof error;
    if (error == EINPROGRESS && poll(&writable, 1, timeout_ms) == 1)
      getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  }
  Address own{.storage = {}, .length = sizeof own.storage};
  getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.length);
  close(socket);
  return error == 0 ? std::optional(own) : std::nullopt;
}

}  // namespace penstock::detail
