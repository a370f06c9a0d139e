// One exchange over HTTP: a request, its answer, and how it ended. The transport is libcurl, loaded when it is first
// used.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "loader/far/retry.h"

namespace penstock::detail {

/// What comes more slowly counts as nothing: a service could keep one waiting for ever by a byte from time to time.
constexpr int64_t kLeastBytesPerSecond = 500;

struct HttpRequest {
  std::string method = "GET";
  std::string url{};                             // encoded
  std::map<std::string, std::string> headers{};  // lower-case names
  std::string body{};
  bool follows_redirects = true;
  bool on_new_connection = false;
  double connect_timeout_s = 10;
  double stall_timeout_s = 10;                 // the longest time with fewer than kLeastBytesPerSecond
  double total_timeout_s = 0;                  // of the whole exchange; 0: as long as bytes come
  std::function<bool()> on_wait{};             // called every 100 ms, also when no byte comes; false ends the exchange
  const std::atomic<bool>* is_over = nullptr;  // looked at every 5 ms; true ends the exchange
};

struct HttpResponse {
  Attempt attempt;
  std::map<std::string, std::string> headers{};  // lower-case names; of the last answer after redirects
  std::string problem{};                         // what the transport says where it did not end as it should
  std::string body{};                            // what no sink took; at most 64 KiB

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

/// Gets the bytes of an answer with status 200 or 206, in order. Returns false to end the exchange.
using HttpSink = std::function<bool(const HttpResponse& head, std::span<const uint8_t> bytes)>;

/// Without a sink the body is kept. An exchange counts as kAnswered where the sink has ended it, and where more than 64
/// KiB have come of a body that no sink takes: no more of it is read.
///
/// Proxies are those of the environment (https_proxy, http_proxy, no_proxy). Certificates are checked against
/// AWS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE, the first that is set, or what the system trusts; redirects of https
/// stay in https.
/// Connections are kept and used again. Errors: config_error where the machine has no libcurl, and for a header with a
/// line break; all else is told by the result. Thread-safety: any thread.
void start_transport();  ///< Loads libcurl. Errors: as exchange().
HttpResponse exchange(const HttpRequest& request, const HttpSink& sink = {});

}  // namespace penstock::detail
