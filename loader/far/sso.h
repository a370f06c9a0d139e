// SSO: the keys of a role for the token that `aws sso login` has left (IAM Identity Center).
#pragma once

#include <string>

#include "loader/far/signature.h"

namespace penstock::detail {

/// What a profile says of it, under the names of ~/.aws/config.
struct SsoProfile {
  std::string name;     // of the profile
  std::string session;  // sso_session, or "" where the profile has the rest itself, as before there were sessions
  std::string start_url, region, account_id, role_name;
};

/// Asks the portal for the keys (GetRoleCredentials), with the token in `folder`, which is ~/.aws/sso/cache. The portal
/// is AWS_ENDPOINT_URL_SSO, or that of the region. The token is neither renewed nor written. Errors: config_error,
/// which says `aws sso login` where there is no token, or one that has expired or is not taken; never the token or a
/// key.
Credentials keys_by_sso(const SsoProfile& profile, const std::string& folder, const std::string& endpoint);

/// The name without its ending that the token has in the folder: the SHA-1 (FIPS 180-4) of the session's name, or of
/// the address, as 40 hex digits.
std::string sso_token_name(const std::string& session);

}  // namespace penstock::detail
