// SigV4: signs requests to S3 and to services that speak its language (AWS Signature Version 4), and what it hashes
// with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/files/checksum.h"

namespace penstock::detail {

/// An access key. `token` is that of a session, or "". Never printed: messages have `source` alone.
struct Credentials {
  std::string key_id, secret, token;
  int64_t expires_s = 0;  // seconds since 1970; 0: never
  std::string source;     // "environment AWS_ACCESS_KEY_ID", "profile \"default\" in ~/.aws/credentials"
};

/// What is signed of a request. The body is, too, so that a service refuses one that has changed on its way.
struct SignedParts {
  std::string method = "GET";
  std::string host;
  std::string path;                                          // percent-encoded
  std::vector<std::pair<std::string, std::string>> query{};  // not encoded, in any order
  std::map<std::string, std::string> headers{};              // lower-case names; without host and x-amz-*
  std::string_view body{};                                   // valid until signed_headers() returns
};

/// The headers that make a signed request of `parts`: its own, x-amz-date, x-amz-content-sha256, with a session's token
/// x-amz-security-token, and authorization. `now_s`: seconds since 1970, by the clock of the service.
std::map<std::string, std::string> signed_headers(const SignedParts& parts, const Credentials& credentials,
                                                  const std::string& region, const std::string& service, int64_t now_s);

/// `20130524T000000Z`.
std::string amz_date(int64_t seconds);

/// The query as it is sent and signed: encoded, sorted, without the `?`.
std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query);

/// HMAC (Krawczyk, Bellare and Canetti 1997) with SHA-256, RFC 2104.
Sha256 hmac_sha256(std::string_view key, std::string_view text);

/// The bytes as a text of the same bytes, to be hashed on.
std::string_view bytes_of(const Sha256& hash);

}  // namespace penstock::detail
