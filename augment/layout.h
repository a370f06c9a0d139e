// Layout and Normalization: how levels become the elements of a batch, and where these lie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "augment/plan.h"

namespace penstock {

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

/// Bytes of one element: 4, 2 or 1.
size_t element_bytes(Layout layout);

/// Bytes of one rendered sample.
size_t rendered_bytes(Layout layout, const Extent& output);

}  // namespace penstock
