// JpegScratch: the memory that decoding JPEGs keeps between pictures.
#pragma once

#include "loader/jpeg/entropy/huffman.h"
#include "loader/jpeg/pixels/pixels.h"

namespace penstock::detail {

/// Memory: about 160 KB, plus the pixels of the largest region so far.
struct JpegScratch {
  PixelScratch pixels;
  HuffmanSource huffman;
};

}  // namespace penstock::detail
