// Layout and Normalization: how levels become the elements of a batch, and where these lie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "augment/pixels/pixels.h"

namespace penstock {

/// Element type and dimension order of one sample: C x H x W (Nchw, planes) or H x W x C (Nhwc, pixels). f16 is IEEE
/// binary16; bf16 is the upper half of an f32. u16 is for pictures of u16 alone.
enum class Layout : uint8_t { kF32Nchw, kU8Nhwc, kF16Nchw, kBf16Nchw, kF32Nhwc, kF16Nhwc, kBf16Nhwc, kU16Nhwc };

constexpr bool is_planar(Layout layout) {
  return layout == Layout::kF32Nchw || layout == Layout::kF16Nchw || layout == Layout::kBf16Nchw;
}

/// The layout H x W x C that keeps levels of this type as they are.
constexpr Layout own_layout(PixelType type) {
  return type == PixelType::kU8 ? Layout::kU8Nhwc : type == PixelType::kU16 ? Layout::kU16Nhwc : Layout::kF32Nhwc;
}

/// Whether the elements are levels as they are stored, which are not normalised.
constexpr bool has_levels(Layout layout) { return layout == Layout::kU8Nhwc || layout == Layout::kU16Nhwc; }

/// The name that users write: f32, u8, f16, bf16, f32-nhwc, f16-nhwc, bf16-nhwc, u16.
const char* layout_name(Layout layout);

/// A number for each channel; the ones after the last channel are unused.
template <class Number>
using PerChannel = std::array<Number, kMaxChannels>;

/// value = level * scale + bias. The default gives 0..1 for pictures of u8. u8 and u16 output is not normalised; the
/// device does that.
struct Normalization {
  PerChannel<float> scale{1 / 255.f, 1 / 255.f, 1 / 255.f};
  PerChannel<float> bias{};
  /// (level / white - mean) / deviation, which is torchvision's Normalize on values 0..1.
  static Normalization of(const PerChannel<double>& mean, const PerChannel<double>& deviation, double white = 255);
  /// level / white_level(type) in every channel.
  static Normalization plain(PixelType type);
};

/// Bytes of one element: 4, 2 or 1.
size_t element_bytes(Layout layout);

/// Bytes of one rendered sample.
size_t rendered_bytes(Layout layout, const Extent& output);

}  // namespace penstock
