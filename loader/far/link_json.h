// link_json(): LinkStats for files and for programs.
#pragma once

#include <string>

#include "loader/far/link_stats.h"

namespace penstock {

/// A JSON object with every count by its name, `over_bytes`, and the rate as `bytes_per_second`. As text, so that who
/// includes this needs no library of JSON.
std::string link_json(const LinkStats& link);
/// The counts that link_json() has written. Those that it does not write are 0. Throws what the parser of JSON throws.
LinkStats link_of_json(const std::string& json);

}  // namespace penstock
