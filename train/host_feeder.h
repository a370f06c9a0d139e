// What a loader needs so that a host feeder can copy its slots to a CUDA device without a detour.
#pragma once

#include "loader/loader.h"

namespace penstock {

/// Slots in page-locked memory, from LibTorch's caching host allocator. Null where none can be had: no CUDA device, or
/// no memory left.
SlotAllocator pinned_slots();

}  // namespace penstock
