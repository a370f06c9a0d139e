// JpegScratch: what decoding JPEGs keeps between pictures.
#pragma once

#include "loader/jpeg/huffman.h"
#include "loader/jpeg/pixels.h"

namespace penstock::detail {

/// About 160 KB, and the largest region so far.
struct JpegScratch {
  PixelScratch pixels;
  HuffmanSource huffman;
};

}  // namespace penstock::detail
