// Url: the parts of an address, and how they are encoded.
#pragma once

#include <string>
#include <string_view>

namespace penstock::detail {

/// `scheme://host:port/path`. Errors: parse() throws config_error for an address without a host or with a port that is
/// none, with a query or a fragment (a folder's files would be inside of it), with a user's name or password (messages
/// would show them), and with `..` in its path.
struct Url {
  std::string scheme;  // lower case
  std::string host;    // with the port, if there is one
  std::string path;    // from its `/` on, as typed, not encoded

  static Url parse(std::string_view text);
  std::string text() const { return scheme + "://" + host + path; }
};

/// RFC 3986, as AWS signs it: every byte but letters, digits and `-._~` becomes %XX; `/` stays where `keeps_slash`.
std::string percent_encoded(std::string_view text, bool keeps_slash);

}  // namespace penstock::detail
