// link_json(): LinkStats for files and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "loader/far/link_stats.h"

namespace penstock {

/// Every count by its name, `over_bytes`, and the rate as `bytes_per_second`.
nlohmann::ordered_json link_json(const LinkStats& link);

}  // namespace penstock
