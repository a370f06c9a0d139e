// Field pictures: what a field of kind picture holds. It is a PNG, a JPEG or an array of NumPy, H x W or H x W x C, of
// u8, u16 or f32.
#pragma once

#include <cstdint>
#include <span>

#include "augment/render.h"
#include "loader/codecs/codec.h"

namespace penstock {

struct FieldPictureKind {
  Extent extent;
  PixelType type = PixelType::kU8;
};

/// By the header alone. Throws corrupt_error, which names no sample, for bytes that are no such picture.
FieldPictureKind probe_field_picture(std::span<const uint8_t> bytes);

/// All of its pixels, as they are stored: no orientation of its own counts. Valid as long as `bytes`, and until
/// `scratch` is used again. Throws corrupt_error, which names no sample.
Picture decode_field_picture(std::span<const uint8_t> bytes, DecodeScratch& scratch);

}  // namespace penstock
