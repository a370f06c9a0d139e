// The flags of `train` about data: which samples it trains on, and how batches are made of them.
#pragma once

#include "tools/cli.h"
#include "train/options/options.h"

namespace penstock {

void add_data_flags(CLI::App& app, TrainOptions& o);

}  // namespace penstock
