// The places that keys of S3 come from, in the order in which AWS's own tools look.
#pragma once

#include <optional>
#include <string>

#include "loader/far/signature.h"

namespace penstock::detail {

/// Keys from the first place that has some:
///   environment             AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
///   web identity            AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN, by STS (AWS_ENDPOINT_URL_STS)
///   profile AWS_PROFILE     in ~/.aws/credentials and ~/.aws/config: keys, or a credential_process. SSO and role_arn
///                           are refused with what to type: the AWS command line gives their keys
///   container               AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI
///   instance                IMDSv2, unless AWS_EC2_METADATA_DISABLED=true
/// Nothing if no place has any. Files are read and services asked anew at every call. Errors: config_error for a place
/// that is set up and does not give a key; the message names it, and never a key.
std::optional<Credentials> find_credentials(const std::string& region);

/// As gs:// has them: GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY (HMAC keys of Google), or the first three places above.
std::optional<Credentials> find_google_credentials(const std::string& region);

/// The value of `key` in the profile of AWS_PROFILE, in either file; "" if it has none.
std::string profile_value(const std::string& key);

/// The value of an environment variable; "" if it is not set.
std::string environment(const char* name);

/// The same as a number above 0; `fallback` for anything else.
double environment_seconds(const char* name, double fallback);

/// The value of `key` in section `section` of the text of an INI file, as ~/.aws has them; "" if there is none.
std::string ini_value(const std::string& text, const std::string& section, const std::string& key);

}  // namespace penstock::detail
