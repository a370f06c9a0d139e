// The key `devices` of modes: which devices of a machine they take.
#pragma once

#include <string>
#include <vector>

#include "core/spec.h"

namespace penstock::detail {

/// The devices that the key names, in its order, as the numbers of GPUs, or -1 for a thread of the CPU: `devices=cpu:4`
/// is four times -1, `devices=0:2` is 0 and 2. `what` names what runs on them in errors: "replicas", "ranks". `gpus` as
/// in MeshRequest. Throws config_error for GPUs that are not visible or named twice, and for the CPU in a run on CUDA
/// or the other way round. Requires that the spec has the key.
std::vector<int> devices_of(const Spec& spec, const std::string& what, int gpus);

}  // namespace penstock::detail
