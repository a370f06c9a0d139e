// SHA-256 and HMAC of it: what requests to S3 are signed with.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::detail {

using Sha256 = std::array<uint8_t, 32>;

/// FIPS 180-4. About 200 MB/s: meant for texts, and for the parts of an upload, which the network sends no faster.
Sha256 sha256(std::string_view text);

/// HMAC (Krawczyk, Bellare and Canetti 1997) with SHA-256, RFC 2104.
Sha256 hmac_sha256(std::string_view key, std::string_view text);

/// The bytes as a text of the same bytes, to be hashed on, and as 64 lower-case hex digits.
std::string_view bytes_of(const Sha256& hash);
std::string hex_of(const Sha256& hash);

}  // namespace penstock::detail
