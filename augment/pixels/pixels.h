// PixelType: what the levels of a picture are. A raster is any picture but a grey or RGB one of 8 bits.
//
// Lives here: levels and the elements that they become: types, layouts, borders, weights of filters and blurs,
// rounding.
// Not here: what a plan does with them (augment/plan), and the loops over them (augment/kernels).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/text.h"

namespace penstock {

/// The type of one level, in the machine's byte order.
enum class PixelType : uint8_t { kU8, kU16, kF32 };

constexpr int kMaxChannels = 32;

/// The size of a picture: height and width in pixels; channels are 1 (grey) or 3 (RGB).
struct Extent {
  int height = 0;
  int width = 0;
  int channels = 0;
  bool operator==(const Extent&) const = default;
};

constexpr size_t level_bytes(PixelType type) { return type == PixelType::kU8 ? 1 : type == PixelType::kU16 ? 2 : 4; }

/// The name that users write: u8, u16 or f32.
constexpr const char* pixel_type_name(PixelType type) {
  return type == PixelType::kU8 ? "u8" : type == PixelType::kU16 ? "u16" : "f32";
}

/// The level that becomes 1 where nothing normalises: 255, 65535, and 1 for f32, whose values stay as they are.
constexpr float white_level(PixelType type) {
  return type == PixelType::kU8 ? 255.F : type == PixelType::kU16 ? 65535.F : 1.F;
}

/// Whether pictures of this kind are rasters, for which there are raw pixels and geometry, but neither colour
/// transforms nor JPEG.
constexpr bool is_raster(PixelType type, int channels) {
  return type != PixelType::kU8 || (channels != 1 && channels != 3);
}

/// `13 channels of u16`, for messages.
inline std::string pixels_text(PixelType type, int channels) {
  return concat(channels, channels == 1 ? " channel of " : " channels of ", pixel_type_name(type));
}

}  // namespace penstock
