// The key `devices` of modes: what of a machine they take.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "core/spec.h"

namespace penstock::detail {

/// Those of `devices=cpu:4`, or of `devices=0:2`, which are GPUs, in that order. `what` they carry: "replicas",
/// "ranks". `gpus` as in MeshRequest. Throws config_error for GPUs that are not visible or named twice, and for the CPU
/// in a run on CUDA or the other way round. Requires that the spec has the key.
std::vector<torch::Device> devices_of(const Spec& spec, const std::string& what, int gpus);

/// The indices of these devices; empty on the CPU.
std::vector<int> gpu_indices(const std::vector<torch::Device>& devices);

}  // namespace penstock::detail
