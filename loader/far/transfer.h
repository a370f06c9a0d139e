// Transfer: bytes of an object, in order, in spite of what networks and services do.
//
// Lives here: how bytes come from HTTP, S3 and Google's storage: addresses, signatures, credentials, the rules of what
// is tried again (retry.h), one exchange (http.h), and the loop around it.
// Not here: what is kept on the disk (loader/cache), and what the bytes mean (loader/files, loader/shards).
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "loader/far/origin.h"

namespace penstock::detail {

/// What is wanted of an object.
struct TransferWish {
  std::string address;
  uint64_t begin = 0;
  std::optional<uint64_t> end{};         // none: to its end
  std::string etag{};                    // of the bytes before `begin`; "": whatever the object is now
  std::optional<uint64_t> byte_count{};  // that the object must have
  bool on_new_connection = false;
  int most_attempts = INT_MAX;  // without a new byte
};

/// What is known of an object after its bytes have come.
struct ObjectFacts {
  std::string etag;  // "" if the server gives none
  uint64_t byte_count = 0;
  bool is_range = false;  // the last answer had only what was asked for: the server knows ranges
};

/// The object is another one than before. The caller begins again, once.
class ObjectChanged : public Error {
 public:
  ObjectChanged(const std::string& address, const std::string& fact);  ///< `fact`: "its ETag was "a" and is "b""
};

/// There is no such object. `code` is S3's word for it ("NoSuchKey", "NoSuchBucket"), or "".
class MissingObject : public Error {
 public:
  MissingObject(const std::string& message, std::string code)
      : Error(ErrorKind::kIo, message), code_(std::move(code)) {}
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

struct TransferCallbacks {
  /// Takes the bytes that lie at `offset`; offsets ascend without gaps. `facts` are those of the answer.
  std::function<void(uint64_t offset, std::span<const uint8_t> bytes, const ObjectFacts& facts)> sink;
  /// Called at least every 0.5 s of a wait, so that others see that this transfer lives. Returns false to give up.
  std::function<bool()> on_wait = [] { return true; };
  /// Set by another thread, whose bytes came first: ends a wait for bytes within 5 ms. on_wait has to say so as well.
  const std::atomic<bool>* is_over = nullptr;
};

/// Gets the bytes by the rules of retry.h. Errors: io_error naming the address where the object is missing or nothing
/// came for PENSTOCK_RETRY_TIMEOUT (default 300 s; with AWS_MAX_ATTEMPTS as many attempts); a host that has never
/// answered is given up after 3 attempts. config_error where a service refuses: the message names where the credentials
/// come from, and never what they are. corrupt_error for another size than wish.byte_count. ObjectChanged. No byte for
/// PENSTOCK_DOWNLOAD_TIMEOUT (default 10 s) ends a connection.
ObjectFacts transfer(Origin& origin, const TransferWish& wish, const TransferCallbacks& callbacks);

/// Attempts at a host that has never answered: more likely its name is wrong than its hour bad.
constexpr int kAttemptsAtUnknownHost = 3;
/// Whether the host of an encoded address has ever answered this process, which may have been in this attempt.
bool has_host_answered(const std::string& url, const Attempt& attempt);

/// The whole object in memory, begun again once if it changes meanwhile. Throws corrupt_error if it changes twice,
/// and io_error if it has more than `most` bytes.
std::vector<uint8_t> transfer_whole(Origin& origin, const std::string& address, uint64_t most);

/// Whether there is such an object. Throws as transfer().
bool object_exists(Origin& origin, const std::string& address);

}  // namespace penstock::detail
