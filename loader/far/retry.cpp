// The rules of the network.
#include "loader/far/retry.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include "core/number.h"

namespace penstock::detail {
namespace {

constexpr double kFirstWait_s = 0.5, kLongestWait_s = 20, kLongestAsked_s = 60;

Verdict verdict_of_status(const Attempt& attempt) {
  const int status = attempt.status;
  const auto& code = attempt.code;
  if (status == 200 || status == 206) return Verdict::kDone;
  if (code == "RequestTimeTooSkewed") return Verdict::kSetClock;
  if (code == "ExpiredToken" || code == "TokenRefreshRequired" || code == "InvalidToken") return Verdict::kRenew;
  if (code == "RequestTimeout") return Verdict::kAgain;  // S3 says it with status 400
  if (status == 429 || status == 503 || code == "SlowDown") return Verdict::kAgainSlower;
  if (status == 500 || status == 502 || status == 504 || status == 408) return Verdict::kAgain;
  if (status == 404 || status == 410) return Verdict::kMissing;
  if (status == 412) return Verdict::kRestart;
  if (status == 401 || status == 403 || status == 400) return Verdict::kRenew;
  if (status == 301 || status == 307 || status == 308) return Verdict::kRefused;  // S3's word for another region
  return Verdict::kFailed;
}

}  // namespace

Verdict verdict_of(const Attempt& attempt) {
  switch (attempt.end) {
    case Attempt::End::kAnswered:
      return verdict_of_status(attempt);
    case Attempt::End::kNoHost:
    case Attempt::End::kLost:
    case Attempt::End::kWrongRange:
    case Attempt::End::kOther:
      return Verdict::kAgain;
    case Attempt::End::kStalled:
      return Verdict::kReconnect;
    case Attempt::End::kOutOfFiles:
      return Verdict::kOutOfFiles;
    case Attempt::End::kDistrusted:
      return Verdict::kRefused;
    case Attempt::End::kRedirects:
      return Verdict::kFailed;
  }
  return Verdict::kFailed;
}

double back_off_s(int failures, double uniform, std::optional<double> retry_after_s) {
  if (retry_after_s) return std::clamp(*retry_after_s, 0.0, kLongestAsked_s);
  return uniform * std::min(kLongestWait_s, std::ldexp(kFirstWait_s, std::clamp(failures - 1, 0, 30)));
}

double jitter() {
  thread_local std::minstd_rand engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

std::optional<int64_t> parse_http_date(const std::string& text) {
  std::tm parts{};
  const char* const end = strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return {};
  return timegm(&parts);
}

std::optional<double> parse_retry_after(const std::string& text, int64_t now_s) {
  if (const auto seconds = parse_number<int64_t>(text); seconds && *seconds >= 0) return static_cast<double>(*seconds);
  const auto date = parse_http_date(text);
  if (!date) return {};
  return static_cast<double>(std::max<int64_t>(0, *date - now_s));
}

}  // namespace penstock::detail
