// save: a strategy's state in files, tensor by tensor.
#pragma once

#include <filesystem>
#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/comm/comm.h"
#include "train/options/options.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {

struct Saved {
  Strategy& strategy;
  Comm& comm;
  torch::Device device;  // of this rank
};

/// Collective: rank 0 writes the checkpoint.
///
/// Errors: io_error at rank 0. config_error at every rank if a number is not finite; the file that was there, the last
/// good one, is then as it was. The loss of the last step was computed before its update, so only the weights show
/// whether that update made the run diverge.
void write_checkpoint(const Saved& saved, const std::filesystem::path& path, const CheckpointInfo& info,
                      const TrainOptions& options);

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kUnaveragedModelFile = "model-unaveraged.safetensors";

/// Collective: rank 0 writes the model alone, or its average if there is one, into `out`, and `with_unaveraged` the
/// weights beside the average. Errors: io_error at rank 0.
void write_model(const Saved& saved, const std::filesystem::path& out, const std::string& arch, bool with_unaveraged);

}  // namespace penstock
