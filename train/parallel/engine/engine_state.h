// What a gradient sync keeps from step to step, as entries of a checkpoint: strategy.<owner>.<data rank>.<entry>.
#pragma once

#include <string>

#include "train/comm/comm.h"
#include "train/parallel/strategy/gradient_sync.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

/// Whether an entry of a checkpoint is a rank's own, which no other mode and number of ranks can use.
bool is_kept_entry(const std::string& name);

/// The entries of all ranks of `data`.
StateSizes kept_sizes(GradientSync& sync, const Comm& data);

/// Collective over the ranks of `data`: rank 0's `use` gets these entries one by one.
void for_each_kept(GradientSync& sync, Comm& data, const UseTensor& use);

/// Loads this rank's entries if the checkpoint has those of exactly this sync and number of ranks. Otherwise none,
/// which every rank decides alike, and the result says in one line what was left out; "" if there was nothing.
std::string load_kept(const StateDict& state, GradientSync& sync, int rank, int world_size);

}  // namespace penstock::detail
