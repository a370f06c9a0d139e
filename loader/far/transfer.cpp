// Transfer: the loop of attempts.
#include "loader/far/transfer.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>
#include <thread>

#include "core/clock.h"
#include "core/limits.h"
#include "core/mutex.h"
#include "core/number.h"
#include "core/text.h"
#include "loader/far/answer.h"
#include "loader/far/credential_sources.h"
#include "loader/far/limiter.h"
#include "loader/far/link_stats.h"
#include "loader/files/interrupt.h"

namespace penstock::detail {
namespace {

constexpr double kWaitStep_s = 0.1;
constexpr int64_t kLongestAge_s = 1'000'000;   // of the last byte of another process
constexpr uint64_t kUnknownSize = UINT64_MAX;  // an answer without Content-Length

std::atomic<int64_t> g_last_byte_ns{0};  // of all transfers of this process

/// Which hosts have ever answered this process.
class KnownHosts {
 public:
  bool contains(const std::string& host) {
    const MutexLock lock(mutex_);
    return hosts_.contains(host);
  }
  void add(const std::string& host) {
    const MutexLock lock(mutex_);
    hosts_.insert(host);
  }

 private:
  Mutex mutex_;
  std::set<std::string> hosts_ PENSTOCK_GUARDED_BY(mutex_);
};

KnownHosts& known_hosts() {
  static auto& hosts = *new KnownHosts;
  return hosts;
}

/// The word for what an attempt failed by, in counts of what was tried again.
std::string kind_of(const Attempt& attempt) {
  switch (attempt.end) {
    case Attempt::End::kAnswered:
      return std::to_string(attempt.status);
    case Attempt::End::kNoHost:
      return "no host";
    case Attempt::End::kStalled:
      return "timeout";
    case Attempt::End::kWrongRange:
      return "wrong range";
    default:
      return "lost";
  }
}

/// The state of one transfer: how far it came, and what was tried.
class Run {
 public:
  Run(Origin& origin, const TransferWish& wish, const TransferCallbacks& callbacks)
      : origin_(origin), wish_(wish), callbacks_(callbacks), reached_(wish.begin), last_byte_ns_(now_ns()) {
    facts_.etag = wish.etag;
  }

  ObjectFacts whole() {
    while (!is_done_) {
      if (!goes_on()) throw given_up();
      const HttpResponse response = attempt();
      if (!is_done_) follow(response);
    }
    return facts_;
  }

 private:
  HttpResponse attempt() {
    std::map<std::string, std::string> headers;
    if (wish_.begin > 0 || wish_.end || reached_ > 0)
      headers["range"] = concat("bytes=", reached_, "-", wish_.end ? std::to_string(*wish_.end - 1) : "");
    // A weak ETag never matches (RFC 9110, 13.1.1); it is compared here instead.
    if (!facts_.etag.empty() && !facts_.etag.starts_with("W/")) headers["if-match"] = facts_.etag;
    HttpRequest request = origin_.request(wish_.address, std::move(headers));
    request.on_new_connection = is_on_new_connection_ || wish_.on_new_connection;
    request.stall_timeout_s = environment_seconds("PENSTOCK_DOWNLOAD_TIMEOUT", 10);
    request.is_over = callbacks_.is_over;
    request.on_wait = [this] { return goes_on() && !is_patience_over(); };
    is_first_ = true;
    is_wrong_range_ = false;
    HttpResponse response;
    {
      const RequestLimiter::Turn turn(request_limiter(), [this] { return waits_for_turn(); });
      if (!goes_on()) throw given_up();
      const int64_t begin_ns = now_ns();
      std::optional<Flow> flow;
      response = origin_.exchange(request, [&](const HttpResponse& head, std::span<const uint8_t> bytes) {
        if (!flow) flow.emplace(begin_ns, turn.number());
        flow->count(wish_.address, bytes.size());
        return take(head, bytes);
      });
    }
    auto& attempt = response.attempt;
    attempt.has_host_answered = has_host_answered(request.url, attempt);
    attempt.retry_after_s = parse_retry_after(response.header("retry-after"), std::time(nullptr));
    if (is_wrong_range_) attempt.end = Attempt::End::kWrongRange;
    // However the connection ends once all is there.
    else if (has_all())
      attempt.end = Attempt::End::kAnswered;
    else if (is_patience_over() && attempt.end == Attempt::End::kAnswered && attempt.status < 300)
      attempt.end = Attempt::End::kStalled;
    // Nobody waits for a range any more once its last byte is there (hedged_transfer()), and it has succeeded.
    if (!has_all() && !goes_on()) throw given_up();
    const bool is_good = attempt.end == Attempt::End::kAnswered && (attempt.status == 200 || attempt.status == 206);
    if (is_good && is_first_) open(response);  // an empty body
    if (is_good && !is_wrong_range_) {
      if (facts_.byte_count == kUnknownSize) set_size(at_);
      is_done_ = reached_ == end();
      if (!is_done_) attempt.end = Attempt::End::kLost;
    }
    if (is_done_) request_limiter().succeeded();
    return response;
  }

  bool has_all() const { return !is_first_ && !is_wrong_range_ && reached_ == end(); }
  uint64_t end() const { return wish_.end ? std::min(*wish_.end, facts_.byte_count) : facts_.byte_count; }

  /// Compares the head of an answer with what was asked for.
  void open(const HttpResponse& head) {
    is_first_ = false;
    const std::string encoding = head.header("content-encoding");
    if (!encoding.empty() && encoding != "identity")
      throw corrupt_error(concat(wish_.address, ": came with Content-Encoding ", in_quotes(encoding),
                                 ", which was not asked for; expected the bytes of the file: a server that compresses ",
                                 "no such files"));
    ContentRange range;
    facts_.is_range = head.attempt.status == 206;
    if (facts_.is_range) {
      const auto found = parse_content_range(head.header("content-range"));
      if (!found || found->begin != reached_) {
        is_wrong_range_ = true;
        range_text_ = head.header("content-range");
        return;
      }
      range = *found;
      if (!range.total) range.total = wish_.byte_count.value_or(kUnknownSize);
    } else {  // a server that knows no ranges sends all of it: what came before is passed over
      range.total = parse_number<uint64_t>(head.header("content-length")).value_or(kUnknownSize);
    }
    skipped_until_ = reached_;
    at_ = range.begin;
    const std::string etag = head.header("etag");
    if (!facts_.etag.empty() && etag != facts_.etag)
      throw ObjectChanged(wish_.address, concat("its ETag was ", in_quotes(facts_.etag), " and is ", in_quotes(etag)));
    facts_.etag = etag;
    is_html_ = head.header("content-type").starts_with("text/html");
    facts_.byte_count = *range.total;
    if (facts_.byte_count != kUnknownSize) set_size(facts_.byte_count);
  }

  void set_size(uint64_t byte_count) {
    facts_.byte_count = byte_count;
    if (wish_.byte_count && byte_count != *wish_.byte_count)
      throw corrupt_error(concat(wish_.address, ": ", byte_count, " bytes", is_html_ ? " of HTML" : "", "; expected ",
                                 *wish_.byte_count, ", as the manifest says"));
  }

  bool take(const HttpResponse& head, std::span<const uint8_t> bytes) {
    if (is_first_) open(head);
    if (is_wrong_range_) return false;
    const uint64_t begin = std::max(at_, skipped_until_);
    const uint64_t stop = std::min(at_ + bytes.size(), end());
    if (stop > begin) {
      callbacks_.sink(begin, bytes.subspan(begin - at_, stop - begin), facts_);
      reached_ = stop;
      failures_ = 0;
      has_renewed_ = false;  // keys may end more than once in a long transfer
      note_progress();
    }
    at_ += bytes.size();
    return at_ <= end();  // an answer that is read to its end leaves its connection for the next request
  }

  /// Bytes count once they are as many as the least rate wants since those that counted last.
  void note_progress() {
    const int64_t now = now_ns();
    const double wanted = static_cast<double>(now - last_byte_ns_) * 1e-9 * kLeastBytesPerSecond;
    if (reached_ != end() && static_cast<double>(reached_ - counted_) < wanted) return;
    counted_ = reached_;
    last_byte_ns_ = now;
    g_last_byte_ns = now;
    request_limiter().note_byte();
  }

  /// Waits, renews or throws, by the verdict.
  void follow(const HttpResponse& response) {
    const Verdict verdict = verdict_of(response.attempt);
    is_on_new_connection_ = verdict == Verdict::kReconnect || response.attempt.end == Attempt::End::kLost;
    switch (verdict) {
      case Verdict::kDone:
        return;
      case Verdict::kAgainSlower:
        request_limiter().slow_down();
        return wait(response);
      case Verdict::kAgain:
      case Verdict::kReconnect:
        return wait(response);
      case Verdict::kRenew:
        if (!std::exchange(has_renewed_, true) && origin_.renew()) return;
        throw refusal(response);
      case Verdict::kSetClock:
        if (!std::exchange(has_set_clock_, true) && origin_.set_clock(response.header("date"))) return;
        throw config_error(concat(wish_.address, ": the clock of this machine is not that of the service, which says ",
                                  in_quotes(response.header("date")), "; expected a clock that is set"));
      case Verdict::kRestart:
        throw ObjectChanged(wish_.address, "the service says that it is another object than before (412)");
      case Verdict::kOutOfFiles:
        throw OutOfFiles(wish_.address);
      case Verdict::kMissing:
        throw MissingObject(concat(wish_.address, ": no such object (", status_of(response), "); expected one"),
                            response.attempt.code);
      case Verdict::kRefused:
        throw refusal(response);
      case Verdict::kFailed:
        throw io_error(concat(wish_.address, ": ", status_of(response), "; expected its bytes"));
    }
  }

  void wait(const HttpResponse& response) {
    ++failures_;
    count_retry(kind_of(response.attempt));
    const double most_attempts = environment_seconds("AWS_MAX_ATTEMPTS", 0);
    const bool is_unknown = !response.attempt.has_host_answered && failures_ >= kAttemptsAtUnknownHost;
    if (is_unknown || is_patience_over() || (most_attempts > 0 && failures_ >= most_attempts) ||
        failures_ >= wish_.most_attempts)
      throw failure(response, is_unknown ? "a host that answers" : "a service that comes back");
    // A stalled connection has already waited.
    const bool is_stalled = response.attempt.end == Attempt::End::kStalled && failures_ == 1;
    double left_s = is_stalled ? 0 : back_off_s(failures_, jitter(), response.attempt.retry_after_s);
    while (left_s > 0) {
      const double step_s = std::min(left_s, kWaitStep_s);
      std::this_thread::sleep_for(std::chrono::duration<double>(step_s));
      left_s -= step_s;
      if (!goes_on()) throw given_up();
      if (is_patience_over()) throw failure(response, "a service that comes back");
    }
  }

  /// Whether somebody still waits for this transfer.
  bool goes_on() const { return callbacks_.on_wait() && !is_interrupted(); }
  /// Others have the turns, of this process or another: that a byte came to one of them counts as one that came here.
  bool waits_for_turn() {
    last_byte_ns_ = std::max(last_byte_ns_, g_last_byte_ns.load());
    const int64_t age_s = request_limiter().byte_age_s();
    if (age_s < kLongestAge_s) last_byte_ns_ = std::max(last_byte_ns_, now_ns() - (age_s + 1) * 1'000'000'000);
    return goes_on() && !is_patience_over();
  }
  double waited_s() const { return static_cast<double>(now_ns() - last_byte_ns_) * 1e-9; }
  bool is_patience_over() const { return waited_s() >= patience_s_; }

  Error failure(const HttpResponse& response, const char* expected) const {
    return io_error(concat(wish_.address, ": ", status_of(response), ", ", failures_, " times in ",
                           static_cast<int64_t>(waited_s()), " s; expected ", expected));
  }
  Error given_up() const {
    return io_error(concat(wish_.address, ": the transfer was given up at byte ", reached_,
                           "; expected somebody who still waits for it"));
  }
  std::string status_of(const HttpResponse& response) const {
    const auto& attempt = response.attempt;
    if (attempt.end == Attempt::End::kWrongRange)
      return concat("Content-Range is ", in_quotes(range_text_), " for bytes from ", reached_, " on");
    if (attempt.end != Attempt::End::kAnswered && !response.problem.empty()) return shortened(response.problem);
    if (attempt.end == Attempt::End::kStalled)
      return concat("fewer than ", kLeastBytesPerSecond, " bytes per second after byte ", counted_);
    if (attempt.end == Attempt::End::kLost) return concat("the connection ended at byte ", reached_);
    return concat("status ", attempt.status, attempt.code.empty() ? "" : " ", attempt.code);
  }

  Error refusal(const HttpResponse& response) {
    if (response.attempt.end == Attempt::End::kDistrusted)
      return config_error(
          concat(wish_.address, ": ", shortened(response.problem),
                 "; expected a certificate that the system trusts, or one of the file in AWS_CA_BUNDLE"));
    const std::string region = region_text(response.header("x-amz-bucket-region"), response.body);
    if (!region.empty() && region != origin_.region_text())
      return config_error(concat(wish_.address, ": the bucket is in ", region, ", asked as in ", origin_.region_text(),
                                 "; expected AWS_REGION=", region));
    const std::string source = origin_.credentials_text();
    return config_error(concat(wish_.address, ": refused with ", status_of(response), "; expected ",
                               source.empty() ? std::string("what anybody may read")
                                              : "a right to read it, or other credentials than those of " + source));
  }

  Origin& origin_;
  const TransferWish& wish_;
  const TransferCallbacks& callbacks_;
  ObjectFacts facts_;
  std::string range_text_;
  uint64_t reached_, at_ = 0, skipped_until_ = 0;  // at_: where the next byte of this answer lies
  uint64_t counted_ = reached_;                    // the bytes before it came fast enough
  int failures_ = 0;
  int64_t last_byte_ns_;  // that counted
  const double patience_s_ = environment_seconds("PENSTOCK_RETRY_TIMEOUT", 300);
  bool is_done_ = false, is_first_ = true, is_wrong_range_ = false, is_on_new_connection_ = false;
  bool has_renewed_ = false, has_set_clock_ = false, is_html_ = false;
};

}  // namespace

ObjectChanged::ObjectChanged(const std::string& address, const std::string& fact)
    : Error(ErrorKind::kCorrupt,
            concat(address, ": changed while it was read: ", fact, "; expected an object that stays")) {}

bool has_host_answered(const std::string& url, const Attempt& attempt) {
  const size_t begin = url.find("://") + 3;
  const std::string host = url.substr(begin, url.find('/', begin) - begin);
  if (attempt.status != 0) known_hosts().add(host);
  return known_hosts().contains(host);
}

ObjectFacts transfer(Origin& origin, const TransferWish& wish, const TransferCallbacks& callbacks) {
  return Run(origin, wish, callbacks).whole();
}

std::vector<uint8_t> transfer_whole(Origin& origin, const std::string& address, uint64_t most) {
  for (int attempt = 0;; ++attempt) {
    std::vector<uint8_t> bytes;
    const TransferCallbacks callbacks{.sink = [&](uint64_t, std::span<const uint8_t> part, const ObjectFacts& facts) {
      const uint64_t known = facts.byte_count == kUnknownSize ? bytes.size() + part.size() : facts.byte_count;
      if (known > most) throw io_error(concat(address, ": has ", known, " bytes or more; expected at most ", most));
      bytes.insert(bytes.end(), part.begin(), part.end());
    }};
    try {
      transfer(origin, {.address = address}, callbacks);
      count_ideal(bytes.size());
      return bytes;
    } catch (const ObjectChanged&) {
      if (attempt > 0) throw;
    }
  }
}

bool object_exists(Origin& origin, const std::string& address) {
  const TransferCallbacks callbacks{.sink = [](uint64_t, std::span<const uint8_t>, const ObjectFacts&) {}};
  try {
    transfer(origin, {.address = address, .end = 1}, callbacks);
    return true;
  } catch (const MissingObject& missing) {
    if (missing.code().empty() || missing.code() == "NoSuchKey") return false;
    throw;
  }
}

}  // namespace penstock::detail
