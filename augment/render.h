// render(): samples a decoded picture once, as its plan says, straight into its row of the batch.
#pragma once

#include <string>
#include <vector>

#include "augment/pixels/layout.h"
#include "augment/pixels/picture.h"
#include "augment/plan/plan.h"

namespace penstock {

/// Writes one sample to `output`: H and W are plan.output_height and plan.output_width, C is picture.channels. f32
/// values are computed in f32; f16 and bf16 values are these rounded to nearest even; a u8 value is the level rounded
/// to nearest even and clamped.
///
/// Determinism: the bits are the same on every instruction set (SSE4, AVX2, AVX-512; chosen at run time). Coordinates
/// are f32 (f64 with filters along the axes), and every product is rounded before it is added (no fused multiply-add).
/// Accuracy: filters along the axes sum in fixed point; the result is within 0.06 levels of the exact sum. Of a raster
/// they sum in f32.
/// Rasters (pixels.h) have the same map, filters and borders, and 1 to kMaxChannels channels. What the plan says in
/// levels is in the levels of the picture; of more than 3 channels each has the first level. A NaN spreads to what it
/// is interpolated with. Requires for a raster: no colours in the plan; a layout of f32, f16 or bf16, or of its own
/// type. Requires: the picture covers footprint(plan). Output pixels outside of the *stored* picture take plan.fill,
/// unless they lie in a border of copies. Thread-safety: may be called on any thread; its scratch memory is per thread.
void render(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout, void* output);

/// The instruction sets that both this build and this processor have, by the names of Highway ("AVX3" is AVX-512). The
/// best one comes first, and render() uses it.
std::vector<std::string> render_targets();

}  // namespace penstock
