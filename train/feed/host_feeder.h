// pinned_slots(): slots from which a host feeder can copy directly to a CUDA device.
#pragma once

#include "loader/batch/loader.h"

namespace penstock {

/// Allocates slots in page-locked memory, from LibTorch's caching host allocator. It gives null if there is no CUDA
/// device or no memory left.
SlotAllocator pinned_slots();

}  // namespace penstock
