// The key `devices` of modes: which devices of a machine they take.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "core/spec.h"

namespace penstock::detail {

/// The devices that the key names, in its order: `devices=cpu:4` is the CPU four times, `devices=0:2` is GPU 0 and GPU
/// 2. `what` names what runs on them in errors: "replicas", "ranks". `gpus` as in MeshRequest. Throws config_error for
/// GPUs that are not visible or named twice, and for the CPU in a run on CUDA or the other way round. Requires that the
/// spec has the key.
std::vector<torch::Device> devices_of(const Spec& spec, const std::string& what, int gpus);

/// The numbers of these GPUs; empty for the CPU.
std::vector<int> gpu_indices(const std::vector<torch::Device>& devices);

}  // namespace penstock::detail
