// The flags of `train` about data: which samples it trains on, and how batches are made of them.
#pragma once

#include "tools/cli.h"
#include "train/options/options.h"

namespace penstock {

void add_data_flags(CLI::App& app, TrainOptions& o);

/// Changes --data and --also so that they are read over the emulated link of --sim-link, `speed`.
/// Throws config_error for data that are not packed, which have no shards to fetch, and for a speed that is none.
void put_behind_link(const std::string& speed, TrainOptions& options);

}  // namespace penstock
