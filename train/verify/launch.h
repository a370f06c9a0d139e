// Launches: training without a loader and without files of a run, in processes that live no longer than it.
#pragma once

#include <filesystem>

#include "train/verify/launch_options.h"
#include "train/verify/samples.h"

namespace penstock {

/// Trains, each rank with one intra-op thread, and writes what Strategy::state() gives at rank 0 into `to`, with what a
/// run says (kSaid).
///
/// The ranks are children of this process by fork(): a rank that crashes or hangs (two minutes are the limit) costs
/// nothing but its own launch, and LibTorch and plug-ins need not be loaded again. Requires that this process has one
/// thread and has not used a GPU.
LaunchEnd run_launch(const Launch& launch, const Samples& samples, const std::filesystem::path& to);

/// Whether a forward in training mode draws random numbers.
enum class Randomness {
  kNone,
  kGenerator,  // from LibTorch's generator, as dropout does
  kOwn,        // from elsewhere: with the same state of the generator the same input gives something else
};

/// Runs forwards of `launch`'s model in a child, as run_launch() does and requires. A model that fails there draws
/// nothing: its launches will say what is wrong.
Randomness randomness_of(const Launch& launch);

}  // namespace penstock
