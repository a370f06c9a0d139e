// Emulation: what stands for a device, a loader or a network that is not there.
#pragma once

#include <cstdint>
#include <optional>

#include "train/comm/network_model.h"

namespace penstock {

/// What --emulate-step, --emulate-load and --sim-net ask for.
struct Emulation {
  int64_t step_ns = 0;  ///< A wait stands for a device that takes this for a whole batch; 0: steps are real.
  int64_t load_ns = 0;  ///< Processor time that is wasted on each sample.
  std::optional<NetworkModel> network = {};  ///< Between the ranks; none: the one there is.

  /// Whether times are those of a machine that is not there, so that results are marked.
  bool is_on() const { return step_ns > 0 || load_ns > 0 || network; }
  /// Whether steps change weights: otherwise there is nothing to evaluate or to save.
  bool learns() const { return step_ns == 0; }
};

}  // namespace penstock
