// Url: parsed without trust, because it comes from a command line.
#include "loader/far/url.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

bool is_unreserved(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-._~").find(c) != std::string_view::npos;
}

/// What is wrong with HOST, HOST:PORT or [ADDRESS]:PORT; "" if nothing is.
std::string host_problem(std::string_view host) {
  const size_t end = host.starts_with('[') ? host.find(']') + 1 : std::min(host.find(':'), host.size());
  if (end == 0) return "has no host";
  const std::string_view port = host.substr(end);
  if (port.empty()) return "";
  const auto number = parse_number<unsigned>(port.substr(1));
  if (port[0] == ':' && number && *number >= 1 && *number <= 65535) return "";
  return concat("has ", in_quotes(port), " after its host");
}

}  // namespace

Url Url::parse(std::string_view text) {
  const size_t colon = text.find("://");
  // The address is not shown before it is known that no password is in it, which may have a / in it as well.
  const std::string_view after = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 3);
  const std::string_view host = after.substr(0, after.find('/'));
  const bool is_bucket = text.starts_with("s3:") || text.starts_with("gs:");
  const std::string problem = host_problem(host);
  // With a problem, the @ after a / is that of a password with a / in it.
  if (is_bucket ? host.find_first_of("@:") != std::string_view::npos
                : (problem.empty() ? host : after).find('@') != std::string_view::npos)
    throw config_error(
        "address: has a user's name or password before an @; expected https://HOST/FOLDER or s3://BUCKET/FOLDER");
  const auto refuse = [&](const std::string& fact, const char* expected) {
    // Without the query, which may hold a signature.
    const std::string_view shown = text.substr(0, text.find_first_of("?#"));
    return config_error(concat(shortened(shown), ": ", fact, "; expected ", expected));
  };
  constexpr const char* kForm = "SCHEME://HOST/FOLDER or s3://BUCKET/FOLDER, with a port of 1 to 65535 if any";
  if (!problem.empty()) throw refuse(problem, kForm);
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }) ||
      host.find(' ') != std::string_view::npos)
    throw refuse("has a control character, or a space in its host", "an address");
  if (text.find('?') != std::string_view::npos || text.find('#') != std::string_view::npos)
    throw refuse("has a ? or #", "a folder, in whose address files are named after a /");
  Url url;
  for (const char c : text.substr(0, colon))
    url.scheme += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  url.host = host;
  url.path = after.substr(host.size());
  if (url.path.empty()) url.path += '/';
  for (const auto& part : split(url.path, '/'))
    if (part == "..") throw refuse("has .. in its path", "a folder without it");
  return url;
}

std::string percent_encoded(std::string_view text, bool keeps_slash) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(c) || (c == '/' && keeps_slash))
      encoded += c;
    else
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

}  // namespace penstock::detail
