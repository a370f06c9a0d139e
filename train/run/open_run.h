// set_up(): what a run needs, from the options of the user.
#pragma once

#include <functional>
#include <string>

#include "train/run/setup.h"

namespace penstock {

/// Packs the data if --data names a source; `log` then gets lines about it. Throws what is wrong with the options, the
/// data or the files.
Setup set_up(TrainOptions options, const std::function<void(const std::string&)>& log);

}  // namespace penstock
