// render(): samples a decoded picture once, as its plan says, straight into its row of the batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "augment/plan.h"

namespace penstock {

/// A view of decoded pixels: u8, H x W x C, interleaved, rows `row_stride` bytes apart. It is the part of the stored
/// picture whose upper left pixel is (x, y); a whole picture has x = y = 0. The decoder that returned it says how long
/// it is valid.
struct Picture {
  const uint8_t* pixels = nullptr;
  ptrdiff_t row_stride = 0;  // bytes
  int height = 0, width = 0, channels = 0;
  int x = 0, y = 0;  // position in the stored picture, pixels
};

/// Element type and dimension order of one sample: C x H x W (Nchw, planes) or H x W x C (Nhwc, pixels). f16 is IEEE
/// binary16; bf16 is the upper half of an f32.
enum class Layout : uint8_t { kF32Nchw, kU8Nhwc, kF16Nchw, kBf16Nchw, kF32Nhwc, kF16Nhwc, kBf16Nhwc };

constexpr bool is_planar(Layout layout) {
  return layout == Layout::kF32Nchw || layout == Layout::kF16Nchw || layout == Layout::kBf16Nchw;
}

/// The name that users write: f32, u8, f16, bf16, f32-nhwc, f16-nhwc, bf16-nhwc.
const char* layout_name(Layout layout);

/// value = level * scale + bias. The default gives 0..1. u8 output is not normalised; the device does that.
struct Normalization {
  std::array<float, 3> scale{1 / 255.f, 1 / 255.f, 1 / 255.f};
  std::array<float, 3> bias{};
  /// (level / 255 - mean) / deviation, which is torchvision's Normalize on values 0..1.
  static Normalization of(std::array<double, 3> mean, std::array<double, 3> deviation);
};

/// Writes one sample to `output`: H and W are plan.output_height and plan.output_width, C is picture.channels. f32
/// values are computed in f32; f16 and bf16 values are these rounded to nearest even; a u8 value is the level rounded
/// to nearest even and clamped.
///
/// Determinism: the bits are the same on every instruction set (SSE4, AVX2, AVX-512; chosen at run time). Coordinates
/// are f32 (f64 with kAntialias), and every product is rounded before it is added (no fused multiply-add).
/// Accuracy: kAntialias sums in fixed point; the result is within 0.05 levels of the exact sum.
/// Requires: the picture covers footprint(plan). Output pixels outside of the *stored* picture take plan.fill, unless
/// they lie in a border of copies.
/// Thread-safety: may be called on any thread; its scratch memory is per thread.
void render(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout, void* output);

/// The instruction sets that both this build and this processor have, by the names of Highway ("AVX3" is AVX-512). The
/// best one comes first, and render() uses it.
std::vector<std::string> render_targets();

/// Bytes of one element: 4, 2 or 1.
size_t element_bytes(Layout layout);

/// Bytes of one rendered sample.
size_t rendered_bytes(Layout layout, const Extent& output);

}  // namespace penstock
