// read_png_metadata(): the chunks of a PNG that may say how it has to be turned.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::detail {

struct PngMetadata {
  std::vector<uint8_t> exif, xmp;  // empty: there is none
};

/// Looks for EXIF in eXIf and in the texts "exif" and "Raw profile type exif" (ImageMagick's, which counts only without
/// the others), and for XMP in the text "XML:com.adobe.xmp". Texts are tEXt, zTXt and iTXt. Chunks after the pixels
/// count, too, and of several the last one, as in Pillow. libspng would give those only after it has decoded the
/// pixels.
///
/// A chunk with a wrong CRC is passed over, as are a text that inflates to more than 1 MiB, which is Pillow's limit,
/// and all compressed ones after the 64th. The rest of a file whose chunks do not fit into it is not read; decoding
/// refuses such a file. Memory: the blocks, and 1 MiB while a text is inflated. Errors: bad_alloc. Thread-safety: any
/// thread.
PngMetadata read_png_metadata(std::span<const uint8_t> png);

}  // namespace penstock::detail
