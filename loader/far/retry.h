// The rules of the network: what follows from an attempt that failed, as pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock::detail {

/// How one attempt to get bytes ended.
struct Attempt {
  enum class End {
    kAnswered,    // there is a status
    kNoHost,      // the name is unknown, or nobody listens there
    kLost,        // the connection broke, or the body was shorter than its header said
    kStalled,     // no byte for the download timeout
    kWrongRange,  // Content-Range is not what was asked for
    kDistrusted,  // the certificate does not hold
    kRedirects,   // too many redirects, or one to a scheme that is not followed
    kOutOfFiles,  // this process may open no further one
    kOther,       // anything else that the transport says
  };
  End end = End::kAnswered;
  int status = 0;
  std::string code{};                     // of S3's error document: "SlowDown", "ExpiredToken"
  std::optional<double> retry_after_s{};  // of the header
  bool has_host_answered = false;         // before, in this process
};

/// What to do next.
enum class Verdict {
  kDone,
  kAgain,        // after back_off_s(), from the byte that was reached
  kAgainSlower,  // besides, fewer requests at a time
  kReconnect,    // at once, on a new connection, from the byte that was reached
  kRenew,        // with new credentials, once
  kSetClock,     // with the clock of the service, once
  kRestart,      // the object changed: from the first byte, once
  kOutOfFiles,   // OutOfFiles: whoever holds files lets go of them
  kMissing,      // io_error: no such object
  kRefused,      // config_error: credentials, region or certificate
  kFailed,       // io_error
};

Verdict verdict_of(const Attempt& attempt);

/// Seconds to wait before attempt `failures` + 1: U(0, min(20, 0.5 x 2^(failures - 1))) ("full jitter", Brooker 2015),
/// with `uniform` from [0, 1); what Retry-After asks for is waited instead, up to 60 s. `failures` counts those since
/// the last new byte, from 1.
double back_off_s(int failures, double uniform, std::optional<double> retry_after_s = {});

/// Uniform in [0, 1). Not of the project's own generators: that machines wait differently is its point.
double jitter();

/// Seconds of a Retry-After header: a number, or an HTTP date relative to `now_s`. Nothing for another text.
std::optional<double> parse_retry_after(const std::string& text, int64_t now_s);

/// Seconds since 1970 of an HTTP date ("Wed, 25 Nov 2026 07:00:00 GMT").
std::optional<int64_t> parse_http_date(const std::string& text);

}  // namespace penstock::detail
