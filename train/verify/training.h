// Training: what one rank of a launch does, and what it says afterwards.
#pragma once

#include <filesystem>
#include <memory>

#include "train/comm/comm.h"
#include "train/verify/launch_options.h"
#include "train/verify/samples.h"

namespace penstock {

/// Beside the tensors of a checkpoint, rank 0 writes what a run says. Names of these begin with this:
///
///     said.steps        steps x 2   sum of the losses, and rows that were right, of all ranks
///     said.evaluation   N x classes logits of all samples, as Strategy::evaluate() gives them
///     said.of_weights   the same without the average, where one is kept
constexpr const char* kSaid = "said.";

/// Collective. Trains, and writes what Strategy::state() gives at rank 0 into `to`.
void train(const Launch& launch, const Samples& samples, Comm& comm, const std::filesystem::path& to,
           RankProgress& progress);

torch::Device device_of(const Launch& launch);
/// The model with its initial weights. They come from the random numbers of the process, so that ranks that are threads
/// take turns.
std::unique_ptr<Model> model_of(const Launch& launch);

}  // namespace penstock
