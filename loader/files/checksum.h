// Checksum of a whole file, as the manifest states it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace penstock::detail {

/// XXH3-128 (seed 0) of the bytes as 32 lower-case hex digits, most significant first: what `xxh128sum` prints.
std::string xxh3_hex(std::span<const uint8_t> bytes);

}  // namespace penstock::detail
