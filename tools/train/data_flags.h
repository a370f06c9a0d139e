// The flags of `train` about data: which samples it trains on, and how batches are made of them.
#pragma once

#include "tools/cli.h"
#include "train/options/options.h"

namespace penstock {

void add_data_flags(CLI::App& app, TrainOptions& o);

/// Puts --data and --also behind the link of --sim-link. Data that are not packed have no shards that could come over a
/// link: throws config_error for them.
void put_behind_link(const std::string& speed, TrainOptions& options);

}  // namespace penstock
