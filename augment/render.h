// render(): samples a decoded picture once, by its plan, straight into its row of the batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "augment/plan.h"

namespace penstock {

/// u8 pixels, H x W x C interleaved, rows `row_stride` bytes apart: the part of the stored picture whose upper left
/// pixel is (x, y). A whole picture has x = y = 0. Valid as long as whoever decoded it says.
struct Picture {
  const uint8_t* pixels = nullptr;
  ptrdiff_t row_stride = 0;  // bytes
  int height = 0, width = 0, channels = 0;
  int x = 0, y = 0;  // of the stored picture, pixels
};

/// Element and order of one sample: C x H x W (Nchw, planes) or H x W x C (Nhwc, pixels). f16 is IEEE's binary16, bf16
/// the upper half of an f32.
enum class Layout : uint8_t { kF32Nchw, kU8Nhwc, kF16Nchw, kBf16Nchw, kF32Nhwc, kF16Nhwc, kBf16Nhwc };

constexpr bool is_planar(Layout layout) {
  return layout == Layout::kF32Nchw || layout == Layout::kF16Nchw || layout == Layout::kBf16Nchw;
}

/// As users write it: f32, u8, f16, bf16, f32-nhwc, f16-nhwc, bf16-nhwc.
const char* layout_name(Layout layout);

/// Value = level * scale + bias. The default gives 0..1. u8 output ignores it: there it is the device's work.
struct Normalization {
  std::array<float, 3> scale{1 / 255.f, 1 / 255.f, 1 / 255.f};
  std::array<float, 3> bias{};
  /// (level / 255 - mean) / deviation, as torchvision's Normalize on 0..1.
  static Normalization of(std::array<double, 3> mean, std::array<double, 3> deviation);
};

/// Writes one sample of H, W = plan.output_height, plan.output_width and C = picture.channels to `output`. f32 is
/// worked out in f32; f16 and bf16 are that rounded to nearest even; u8 is the level rounded to nearest even and
/// clamped.
///
/// Determinism: the same bits on every instruction set (SSE4, AVX2, AVX-512, chosen at run time): coordinates are f32
/// (kAntialias: f64), every product is rounded before its sum (no fused multiply-add).
/// Accuracy: kAntialias sums in fixed point, within 0.05 levels of the real sum.
/// Requires: the picture covers footprint(plan); pixels outside of the *stored* picture take plan.fill.
/// Thread-safety: no state.
void render(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout, void* output);

/// The instruction sets that this build and this processor share, by Highway's names ("AVX3" is AVX-512), best first:
/// that one render() uses.
std::vector<std::string> render_targets();

/// Bytes of one element: 4, 2 or 1.
size_t element_bytes(Layout layout);

/// Bytes of one rendered sample.
size_t rendered_bytes(Layout layout, const Extent& output);

}  // namespace penstock
