// SigV4: the steps of "Create a signed AWS API request" (AWS, IAM user guide).
#include "loader/far/signature.h"

#include <algorithm>
#include <cstddef>
#include <ctime>

#include "core/bytes.h"
#include "core/text.h"
#include "loader/far/url.h"

namespace penstock::detail {
namespace {

constexpr size_t kBlockBytes = 64;

}  // namespace

std::string_view bytes_of(const Sha256& hash) { return as_text(hash); }

Sha256 hmac_sha256(std::string_view key, std::string_view text) {
  std::string block(key.size() > kBlockBytes ? std::string(bytes_of(sha256(key))) : std::string(key));
  block.resize(kBlockBytes, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return sha256(outer.append(bytes_of(sha256(inner.append(text)))));
}

std::string amz_date(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::string> pairs;
  for (const auto& [key, value] : query)
    pairs.push_back(percent_encoded(key, false) + "=" + percent_encoded(value, false));
  std::sort(pairs.begin(), pairs.end());
  return join(pairs, "&");
}

std::map<std::string, std::string> signed_headers(const SignedParts& parts, const Credentials& credentials,
                                                  const std::string& region, const std::string& service,
                                                  int64_t now_s) {
  auto headers = parts.headers;
  const std::string date = amz_date(now_s), day = date.substr(0, 8);
  const std::string body_hash = hex_of(sha256(parts.body));
  headers["host"] = parts.host;
  headers["x-amz-date"] = date;
  headers["x-amz-content-sha256"] = body_hash;
  if (!credentials.token.empty()) headers["x-amz-security-token"] = credentials.token;

  std::string canonical = concat(parts.method, "\n", parts.path, "\n", canonical_query(parts.query), "\n");
  std::vector<std::string> names;
  for (const auto& [name, value] : headers) {
    names.push_back(name);
    canonical += concat(name, ":", value, "\n");
  }
  canonical += concat("\n", join(names, ";"), "\n", body_hash);

  const std::string scope = concat(day, "/", region, "/", service, "/aws4_request");
  const std::string to_sign = concat("AWS4-HMAC-SHA256\n", date, "\n", scope, "\n", hex_of(sha256(canonical)));
  Sha256 key = hmac_sha256("AWS4" + credentials.secret, day);
  for (const std::string& part : {region, service, std::string("aws4_request")}) key = hmac_sha256(bytes_of(key), part);
  headers["authorization"] =
      concat("AWS4-HMAC-SHA256 Credential=", credentials.key_id, "/", scope, ",SignedHeaders=", join(names, ";"),
             ",Signature=", hex_of(hmac_sha256(bytes_of(key), to_sign)));
  return headers;
}

}  // namespace penstock::detail
