// is_emulated(): whether a run stands for another machine, in its device, its loader, its network or its link.
#pragma once

#include "loader/far/sim_link.h"
#include "train/options/options.h"

namespace penstock {

/// Whether --sim-link is between the data and the loader. Its speed is in the environment (kSimLinkVariable).
inline bool is_behind_sim_link(const DataOptions& options) { return options.data.starts_with(kSimScheme); }

/// Whether times are those of a machine that is not there, so that results are marked.
inline bool is_emulated(const TrainOptions& options) {
  return options.emulation.is_on() || is_behind_sim_link(options);
}

}  // namespace penstock
