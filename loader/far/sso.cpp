// SSO: a file with a token, and one request.
#include "loader/far/sso.h"

#include <array>
#include <bit>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/far/answer.h"
#include "loader/far/http.h"

namespace penstock::detail {
namespace {

constexpr double kPortalTimeout_s = 5;
constexpr uint64_t kMostOfToken = 1 << 20;
constexpr size_t kSha1BlockBytes = 64;

using Sha1State = std::array<uint32_t, 5>;

void add_block(Sha1State& state, const char* block) {
  std::array<uint32_t, 80> w{};
  for (size_t i = 0; i < kSha1BlockBytes; ++i) w[i / 4] = w[i / 4] << 8 | static_cast<uint8_t>(block[i]);
  for (size_t t = 16; t < 80; ++t) w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  auto [a, b, c, d, e] = state;
  for (size_t t = 0; t < 80; ++t) {
    const uint32_t mixed = t < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                           : t < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                           : t < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                    : (b ^ c ^ d) + 0xca62c1d6;
    const uint32_t next = std::rotl(a, 5) + mixed + e + w[t];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  const Sha1State added{a, b, c, d, e};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// A place that a new login fills.
Error no_token(const SsoProfile& profile, const std::string& fact) {
  return config_error(concat("credentials of SSO for profile ", in_quotes(profile.name), ": ", fact,
                             "; expected one that holds: aws sso login --profile ", profile.name));
}

std::string token_of(const SsoProfile& profile, const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) throw no_token(profile, concat("there is no token ", file));
  const auto json = nlohmann::json::parse(read_text(file, kMostOfToken), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || text_of(json, "accessToken").empty())
    throw no_token(profile, concat(file, " has no accessToken"));
  const std::string expires = text_of(json, "expiresAt");
  if (parse_iso_time(expires) <= std::time(nullptr))
    throw no_token(profile, concat("the token ", file, " has expired at ", in_quotes(expires)));
  return text_of(json, "accessToken");
}

}  // namespace

std::string sso_token_name(const std::string& session) {
  Sha1State state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::string padded = session + '\x80';
  while (padded.size() % kSha1BlockBytes != kSha1BlockBytes - 8) padded += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(session.size() * 8 >> shift & 0xff);
  for (size_t at = 0; at < padded.size(); at += kSha1BlockBytes) add_block(state, padded.data() + at);
  std::string name;
  for (const uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4) name += "0123456789abcdef"[word >> shift & 15];
  return name;
}

Credentials keys_by_sso(const SsoProfile& profile, const std::string& folder, const std::string& endpoint) {
  const std::string where = concat("credentials of SSO for profile ", in_quotes(profile.name));
  for (const auto& [name, value] : {std::pair("sso_start_url", &profile.start_url),
                                    {"sso_region", &profile.region},
                                    {"sso_account_id", &profile.account_id},
                                    {"sso_role_name", &profile.role_name}})
    if (value->empty())
      throw config_error(concat(where, ": has no ", name,
                                profile.session.empty() ? "" : ", and neither has sso-session ", profile.session,
                                "; expected one (aws configure sso)"));
  const std::string key = profile.session.empty() ? profile.start_url : profile.session;
  const std::string file = concat(folder, "/", sso_token_name(key), ".json");
  HttpRequest request{
      .url = concat(endpoint.empty() ? concat("https://portal.sso.", profile.region, ".amazonaws.com") : endpoint,
                    "/federation/credentials?",
                    canonical_query({{"role_name", profile.role_name}, {"account_id", profile.account_id}})),
      .headers = {{"x-amz-sso_bearer_token", token_of(profile, file)}},
      .follows_redirects = false,  // what is asked with is secret
      .connect_timeout_s = kPortalTimeout_s,
      .stall_timeout_s = kPortalTimeout_s,
      .total_timeout_s = 2 * kPortalTimeout_s};
  const HttpResponse response = exchange(request);
  if (response.attempt.end != Attempt::End::kAnswered)
    throw config_error(concat(where, ": ", response.problem, "; expected an access key"));
  if (response.attempt.status == 401) throw no_token(profile, concat("the token ", file, " is not taken (status 401)"));
  const auto answer = nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (response.attempt.status != 200 || !answer.is_object() || !answer.contains("roleCredentials"))
    throw config_error(concat(where, ": status ", response.attempt.status, " for role ", profile.role_name,
                              " of account ", profile.account_id, "; expected an access key"));
  const auto& keys = answer["roleCredentials"];
  const auto expires = keys.is_object() ? keys.find("expiration") : keys.end();
  Credentials found{text_of(keys, "accessKeyId"), text_of(keys, "secretAccessKey"), text_of(keys, "sessionToken"),
                    expires != keys.end() && expires->is_number_integer() ? expires->get<int64_t>() / 1000 : 0,
                    concat("SSO for profile ", in_quotes(profile.name))};
  if (found.key_id.empty() || found.secret.empty())
    throw config_error(concat(where, ": the answer has no key; expected an access key"));
  return found;
}

}  // namespace penstock::detail
