// SigV4: the steps of "Create a signed AWS API request" (AWS, IAM user guide). SHA-256: FIPS 180-4, section 6.2.
#include "loader/far/signature.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <ctime>

#include "core/text.h"
#include "loader/far/url.h"

namespace penstock::detail {
namespace {

constexpr size_t kBlockBytes = 64;

constexpr std::array<uint32_t, 64> kRoundConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void add_block(std::array<uint32_t, 8>& state, const uint8_t* block) {
  std::array<uint32_t, 64> w{};
  for (size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t first = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[t] + w[t];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t second = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> added{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

Sha256 sha256(std::string_view text) {
  std::array<uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % kBlockBytes != kBlockBytes - 8) padded += '\0';
  const uint64_t bit_count = uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bit_count >> shift & 0xff);
  for (size_t at = 0; at < padded.size(); at += kBlockBytes)
    add_block(state, reinterpret_cast<const uint8_t*>(padded.data()) + at);
  Sha256 hash{};
  for (size_t i = 0; i < hash.size(); ++i) hash[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return hash;
}

std::string_view bytes_of(const Sha256& hash) { return {reinterpret_cast<const char*>(hash.data()), hash.size()}; }

std::string hex_of(const Sha256& hash) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : hash) hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  return hex;
}

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
