// stored_orientation(): how a camera was held, from the EXIF and XMP blocks of a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace penstock::detail {

/// The orientation, 1 .. 8, by which a picture with these blocks has to be turned. EXIF counts before XMP, as in
/// Pillow's getexif(): XMP is asked only if EXIF does not mention the orientation at all. An empty span stands for a
/// block that is not there. What makes no sense is upright, because a broken block is no reason to refuse a picture.
uint8_t stored_orientation(std::span<const uint8_t> exif, std::span<const uint8_t> xmp);

/// The orientation in the first directory of a TIFF structure (TIFF 6.0, tag 0x0112, one whole number that is no BYTE),
/// which "Exif\0\0" may precede. An entry with more or fewer values than one is none, whereas Pillow takes the first of
/// several. Nothing if there is no entry; 1 for one of another type, or with a value that is not 1 .. 8.
std::optional<uint8_t> exif_orientation(std::span<const uint8_t> block);

/// The orientation in an XMP packet in UTF-8: the digit after the first tiff:Orientation=" or tiff:Orientation>.
/// Nothing if there is none; 1 for the digits 0 and 9.
std::optional<uint8_t> xmp_orientation(std::span<const uint8_t> packet);

}  // namespace penstock::detail
