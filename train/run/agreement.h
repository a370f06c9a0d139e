// Agreement: what the ranks of a run must have in common to train the same thing.
#pragma once

#include "train/comm/terms.h"
#include "train/run/setup.h"

namespace penstock {

/// The program, every flag that flag_table() marks, and the contents of what flags name: a path may differ between
/// machines, the data, weights and checkpoint behind it may not.
Terms terms_of(const Setup& setup);

/// `400 samples with checksum 3f2a01bc`: equal for data sets with equal classes and equal bytes of all shards.
std::string identity_of(const Manifest& manifest);

}  // namespace penstock
