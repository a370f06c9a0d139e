// Upload: single PUTs and multipart uploads.
#include "loader/far/upload.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/bytes.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/number.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/far/answer.h"
#include "loader/far/credential_sources.h"
#include "loader/far/limiter.h"
#include "loader/far/retry.h"
#include "loader/far/transfer.h"
#include "loader/files/interrupt.h"
#include "loader/files/sample.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kPartBytes = 8 << 20, kMostParts = 10'000;  // the limits of S3 are 5 MiB and that number
constexpr double kCompletionTimeout_s = 300;                   // S3 puts large objects together before it answers
constexpr double kUploadStep_s = 0.1;

std::string answer_text(const HttpResponse& response) {
  const auto& attempt = response.attempt;
  if (attempt.end != Attempt::End::kAnswered) return shortened(response.problem);
  return concat("status ", attempt.status, attempt.code.empty() ? "" : " ", attempt.code);
}

/// One request, tried until it is answered. The answer has a status of 200 to 299, or 404.
class WriteRequest {
 public:
  WriteRequest(Origin& origin, const std::string& address, ObjectWish wish, double timeout_s = 0)
      : origin_(origin),
        address_(address),
        wish_(std::move(wish)),
        timeout_s_(std::max(timeout_s, environment_seconds("PENSTOCK_DOWNLOAD_TIMEOUT", 10))) {}

  HttpResponse answer() {
    for (;;) {
      HttpResponse response = attempt();
      const auto& [end, status, code, retry_after_s, has_host_answered] = response.attempt;
      const bool is_good = status >= 200 && status < 300 && code.empty();
      if (end == Attempt::End::kAnswered && (is_good || status == 404)) {
        request_limiter().succeeded();
        return response;
      }
      follow(response);
    }
  }

 private:
  HttpResponse attempt() {
    HttpRequest request = origin_.request(address_, wish_);
    request.on_new_connection = failures_ > 0;
    request.stall_timeout_s = timeout_s_;
    request.on_wait = [] { return !is_interrupted(); };
    const RequestLimiter::Turn turn(request_limiter(), request.on_wait);
    HttpResponse response;
    if (!is_interrupted()) response = exchange(request);
    if (is_interrupted()) throw given_up();
    auto& attempt = response.attempt;
    attempt.has_host_answered = has_host_answered(request.url, attempt);
    attempt.retry_after_s = parse_retry_after(response.header("retry-after"), std::time(nullptr));
    // S3 sends the status of CompleteMultipartUpload before it knows how that ends.
    if (attempt.status == 200 && !attempt.code.empty()) attempt.status = 500;
    return response;
  }

  /// Waits, renews or throws, by the verdict.
  void follow(const HttpResponse& response) {
    switch (verdict_of(response.attempt)) {
      case Verdict::kAgainSlower:
        request_limiter().slow_down();
        return wait(response);
      case Verdict::kAgain:
      case Verdict::kReconnect:
        return wait(response);
      case Verdict::kSetClock:
        if (!std::exchange(has_set_clock_, true) && origin_.set_clock(response.header("date"))) return;
        break;
      case Verdict::kRenew:
        if (!std::exchange(has_renewed_, true) && origin_.renew()) return;
        throw refusal(response);
      case Verdict::kRefused:
        throw refusal(response);
      case Verdict::kOutOfFiles:
        throw OutOfFiles(address_);
      default:
        break;
    }
    throw io_error(concat(address_, ": ", wish_.method, ": ", answer_text(response), "; expected to write it"));
  }

  void wait(const HttpResponse& response) {
    ++failures_;
    const double waited_s = static_cast<double>(now_ns() - begin_ns_) * 1e-9;
    const double most_attempts = environment_seconds("AWS_MAX_ATTEMPTS", 0);
    const bool is_unknown = !response.attempt.has_host_answered && failures_ >= kAttemptsAtUnknownHost;
    if (is_unknown || waited_s > environment_seconds("PENSTOCK_RETRY_TIMEOUT", 300) ||
        (most_attempts > 0 && failures_ >= most_attempts))
      throw io_error(concat(address_, ": ", wish_.method, ": ", answer_text(response), ", ", failures_, " times in ",
                            static_cast<int64_t>(waited_s), " s; expected ",
                            is_unknown ? "a host that answers" : "a service that comes back"));
    double left_s = back_off_s(failures_, jitter(), response.attempt.retry_after_s);
    for (; left_s > 0; left_s -= kUploadStep_s) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left_s, kUploadStep_s)));
      if (is_interrupted()) throw given_up();
    }
  }

  Error given_up() const {
    return io_error(concat(address_, ": ", wish_.method, ": was given up; expected somebody who still waits for it"));
  }

  Error refusal(const HttpResponse& response) {
    const std::string region = region_text(response.header("x-amz-bucket-region"), response.body);
    const std::string source = origin_.credentials_text();
    if (!region.empty() && region != origin_.region_text())
      return config_error(concat(address_, ": the bucket is in ", region, ", asked as in ", origin_.region_text(),
                                 "; expected AWS_REGION=", region));
    return config_error(concat(address_, ": ", wish_.method, ": ", answer_text(response),
                               "; expected a right to write it",
                               source.empty() ? "" : ", or other credentials than those of ", source));
  }

  Origin& origin_;
  const std::string& address_;
  const ObjectWish wish_;
  const double timeout_s_;
  const int64_t begin_ns_ = now_ns();
  int failures_ = 0;
  bool has_renewed_ = false, has_set_clock_ = false;
};

/// As WriteRequest, for what must be there.
HttpResponse answer_of(Origin& origin, const std::string& address, ObjectWish wish, double timeout_s = 0) {
  const std::string method = wish.method;
  HttpResponse response = WriteRequest(origin, address, std::move(wish), timeout_s).answer();
  if (response.attempt.status != 404) return response;
  throw io_error(concat(address, ": ", method, ": ", answer_text(response), "; expected a bucket that is there"));
}

/// `byte_count` bytes from `offset` on.
std::string bytes_at(const RegularFile& file, const std::filesystem::path& path, uint64_t offset, uint64_t byte_count) {
  std::string bytes(byte_count, '\0');
  uint64_t done = 0;
  while (done < byte_count) {
    const ssize_t count =
        pread(file.descriptor(), bytes.data() + done, byte_count - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error(path.string(), "expected to read what is uploaded");
    if (count == 0)
      throw io_error(concat(path.string(), ": ends at byte ", offset + done, "; expected a file that stays"));
    done += static_cast<uint64_t>(count);
  }
  return bytes;
}

/// As services write a crc32c: its four bytes, the highest first, in base64.
std::string crc_text(uint32_t crc) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const uint64_t bits = uint64_t{crc} << 4;  // six digits of six bits
  std::string text;
  for (int shift = 30; shift >= 0; shift -= 6) text += kDigits[bits >> shift & 63];
  return text + "==";
}

/// What services have to say of an object that was sent whole or in parts.
struct SentSums {
  uint32_t crc = 0, part_crc = 0;  // of all bytes; of the bytes of the crcs of the parts
  int part_count = 0;

  /// Returns the text of the crc of `part`, which follows the parts before it.
  std::string add(const std::string& part) {
    crc = crc32c(as_bytes(part), crc);
    const uint32_t own = crc32c(as_bytes(part));
    const std::array<uint8_t, 4> bytes{static_cast<uint8_t>(own >> 24), static_cast<uint8_t>(own >> 16),
                                       static_cast<uint8_t>(own >> 8), static_cast<uint8_t>(own)};
    part_crc = crc32c(bytes, part_crc);
    ++part_count;
    return crc_text(own);
  }
  /// S3 says either of them of what came in parts.
  bool fits(const std::string& stated) const {
    return stated == crc_text(crc) || stated == concat(crc_text(part_crc), "-", part_count);
  }
};

/// Google's storage has a crc32c of every object, and takes no headers of S3's for it.
bool takes_checksums(const std::string& address) { return address.starts_with("s3:"); }

/// The crc32c that the service states of an object; "" if it states none.
std::string stated_crc(const HttpResponse& answer) {
  for (const auto& part : split(answer.header("x-goog-hash"), ','))
    if (const size_t at = part.find("crc32c="); at != std::string::npos) return part.substr(at + 7);
  return answer.header("x-amz-checksum-crc32c");
}

/// Looks at an object that the service says is stored. Returns what is wrong with it; "" if nothing is.
std::string stored_problem(Origin& origin, const std::string& address, const FileFacts& facts, const SentSums& sums) {
  ObjectWish wish{.method = "HEAD"};
  if (takes_checksums(address)) wish.headers["x-amz-checksum-mode"] = "ENABLED";
  const auto answer = WriteRequest(origin, address, std::move(wish)).answer();
  if (answer.attempt.status == 404) return "is not there";
  const std::string size = answer.header("content-length"), crc = stated_crc(answer);
  if (parse_number<uint64_t>(size) != facts.byte_count)
    return concat("has ", size.empty() ? "no size" : size + " bytes");
  if (!crc.empty() && !sums.fits(crc)) return concat("has crc32c ", in_quotes(crc), " and not ", crc_text(sums.crc));
  return "";
}

constexpr const char* kNoteEnding = ".upload";

/// Whether the multipart upload is gone. Once, because whoever aborts has waited already. What stays is removed by a
/// rule of the bucket for such uploads.
bool abort_upload(Origin& origin, const std::string& address, const std::string& id) noexcept {
  try {
    const int status =
        exchange(origin.request(address, ObjectWish{.method = "DELETE", .query = {{"uploadId", id}}})).attempt.status;
    return (status >= 200 && status < 300) || status == 404;
  } catch (...) {  // what failed before is what is told
    return false;
  }
}

/// The upload of one object in parts. The note is removed with it.
class MultipartUpload {
 public:
  MultipartUpload(Origin& origin, const std::string& address, std::map<std::string, std::string> headers,
                  const std::filesystem::path& notes)
      : origin_(origin), address_(address), note_(notes / (address.substr(address.rfind('/') + 1) + kNoteEnding)) {
    const auto answer =
        answer_of(origin_, address_, {.method = "POST", .query = {{"uploads", ""}}, .headers = std::move(headers)});
    id_ = xml_value(answer.body, "UploadId");
    if (id_.empty()) throw io_error(concat(address_, ": the service begins no multipart upload; expected an UploadId"));
    try {
      write_text(note_, id_);
    } catch (...) {
      abort();
      throw;
    }
  }

  void send(std::string bytes) {
    const int number = sums_.part_count + 1;
    const std::string crc = sums_.add(bytes);
    std::map<std::string, std::string> headers{{"content-type", "application/octet-stream"}};
    if (takes_checksums(address_)) headers["x-amz-checksum-crc32c"] = crc;
    const auto answer = answer_of(origin_, address_,
                                  {.method = "PUT",
                                   .query = {{"partNumber", concat(number)}, {"uploadId", id_}},
                                   .headers = std::move(headers),
                                   .body = std::move(bytes)});
    const std::string etag = answer.header("etag");
    if (etag.empty())
      throw io_error(concat(address_, ": part ", number, " has no ETag; expected one from the service"));
    parts_ += concat("<Part><PartNumber>", number, "</PartNumber><ETag>", etag, "</ETag>");
    if (takes_checksums(address_)) parts_ += concat("<ChecksumCRC32C>", crc, "</ChecksumCRC32C>");
    parts_ += "</Part>";
  }

  /// Returns the sums of what was sent.
  SentSums complete(const FileFacts& facts) {
    const auto answer =
        WriteRequest(origin_, address_,
                     {.method = "POST",
                      .query = {{"uploadId", id_}},
                      .headers = {{"content-type", "application/xml"}},
                      .body = concat("<CompleteMultipartUpload>", parts_, "</CompleteMultipartUpload>")},
                     kCompletionTimeout_s)
            .answer();
    // Gone where an earlier attempt succeeded and its answer was lost.
    if (answer.attempt.status == 404 && !is_uploaded(origin_, address_, facts))
      throw io_error(concat(address_, ": ", answer_text(answer), "; expected the multipart upload to be there"));
    forget();
    return sums_;
  }

  void abort() noexcept {
    if (abort_upload(origin_, address_, id_)) forget();
  }

 private:
  void forget() noexcept {
    std::error_code ignored;
    std::filesystem::remove(note_, ignored);
  }

  Origin& origin_;
  const std::string& address_;
  const std::filesystem::path note_;
  std::string id_;
  std::string parts_;  // that were sent, as a list
  SentSums sums_;
};

/// Returns the sums of what was sent.
SentSums send(Origin& origin, const std::string& address, const std::filesystem::path& file, const FileFacts& facts,
              const std::filesystem::path& notes) {
  const RegularFile opened(file);
  const uint64_t byte_count = facts.byte_count;
  std::map<std::string, std::string> headers{{"content-type", "application/octet-stream"},
                                             {"x-amz-meta-xxh3", facts.xxh3}};
  if (byte_count <= kPartBytes) {
    SentSums sums;
    std::string bytes = bytes_at(opened, file, 0, byte_count);
    const std::string crc = sums.add(bytes);
    if (takes_checksums(address)) headers["x-amz-checksum-crc32c"] = crc;
    answer_of(origin, address, {.method = "PUT", .headers = std::move(headers), .body = std::move(bytes)});
    return sums;
  }
  if (takes_checksums(address)) headers["x-amz-checksum-algorithm"] = "CRC32C";
  const uint64_t part_bytes = std::max(kPartBytes, (byte_count + kMostParts - 1) / kMostParts);
  MultipartUpload upload(origin, address, std::move(headers), notes);
  try {
    for (uint64_t at = 0; at < byte_count; at += part_bytes)
      upload.send(bytes_at(opened, file, at, std::min(part_bytes, byte_count - at)));
    return upload.complete(facts);
  } catch (...) {
    upload.abort();
    throw;
  }
}

}  // namespace

void upload(Origin& origin, const std::string& address, const std::filesystem::path& file, const FileFacts& facts,
            const std::filesystem::path& notes) {
  std::string problem;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const SentSums sums = send(origin, address, file, facts, notes);
    problem = stored_problem(origin, address, facts, sums);
    if (problem.empty()) return;
  }
  throw io_error(concat(address, ": the service says that it is stored, and it ", problem, ", twice; expected the ",
                        facts.byte_count, " bytes that were sent"));
}

void abort_uploads(Origin& origin, const std::string& folder, const std::filesystem::path& notes) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(notes))
    if (entry.path().extension() == kNoteEnding) found.push_back(entry.path());
  for (const auto& note : found) {
    if (abort_upload(origin, concat(folder, "/", note.stem().string()), read_text(note))) std::filesystem::remove(note);
  }
}

bool is_uploaded(Origin& origin, const std::string& address, const FileFacts& facts) {
  const auto answer = WriteRequest(origin, address, {.method = "HEAD"}).answer();
  if (answer.attempt.status == 404 || parse_number<uint64_t>(answer.header("content-length")) != facts.byte_count)
    return false;
  // Google's storage calls its own form of the header x-goog-meta.
  return answer.header("x-amz-meta-xxh3") == facts.xxh3 || answer.header("x-goog-meta-xxh3") == facts.xxh3;
}

void remove_object(Origin& origin, const std::string& address) {
  WriteRequest(origin, address, {.method = "DELETE"}).answer();
}

}  // namespace penstock::detail
