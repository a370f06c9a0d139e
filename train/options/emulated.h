// is_emulated(): whether a run stands for another machine, in its device, its loader, its network or its link.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "loader/far/sim_link.h"
#include "train/options/options.h"

namespace penstock {

/// Whether --sim-link is between the data and the loader. Its speed is in the environment (kSimLinkVariable).
inline bool is_behind_sim_link(const DataOptions& options) {
  const auto is_behind = [](const std::string& folder) { return folder.starts_with(kSimScheme); };
  return is_behind(options.data) || std::any_of(options.also.begin(), options.also.end(), is_behind);
}

/// The speed that --sim-link has set; "" where it has not.
inline std::string sim_link_text() {
  const char* const speed = std::getenv(kSimLinkVariable);
  return speed == nullptr ? "" : speed;
}

/// The folder itself: which data are trained on does not depend on the link.
inline std::string without_sim_link(const std::string& folder) {
  return folder.starts_with(kSimScheme) ? folder.substr(std::string_view(kSimScheme).size()) : folder;
}

/// Whether times are those of a machine that is not there, so that results are marked.
inline bool is_emulated(const TrainOptions& options) {
  return options.emulation.is_on() || is_behind_sim_link(options);
}

}  // namespace penstock
