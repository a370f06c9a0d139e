// What the fuzz targets share: a small JPEG that is whole, decoding whatever claims to be one, and a file in memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "loader/codecs/codec.h"
#include "loader/jpeg/write_jpeg.h"

namespace penstock::fuzzing {

constexpr int64_t kMaxPixelCount = 1 << 16;  // larger pictures only cost time

/// 40 x 52 pixels of a pattern, 4:2:0.
inline const std::vector<uint8_t>& small_jpeg() {
  static const std::vector<uint8_t> file = [] {
    constexpr int kHeight = 40, kWidth = 52;
    std::vector<uint8_t> pixels(kHeight * kWidth * 3);
    for (int i = 0; i < kHeight * kWidth * 3; ++i) pixels[i] = static_cast<uint8_t>(i * 7 + (i / 156) * 11 + i % 29);
    return detail::write_jpeg({pixels.data(), kWidth * 3, kHeight, kWidth, 3, 0, 0}, 85);
  }();
  return file;
}

/// Decodes a middle part of `sample` by `path` at every scale. An Error is what hostile bytes may give; all else is a
/// finding.
inline void decode(const Sample& sample, DecodePath path) {
  const auto [height, width, channels] = sample.extent;
  if (int64_t{height} * width > kMaxPixelCount) return;
  static DecodeScratch scratch;  // reused, as a worker does
  uint64_t sum = 0;
  for (const int scale : {8, 4, 2, 1}) {
    const int scaled_height = (height * scale + 7) / 8, scaled_width = (width * scale + 7) / 8;
    const Region middle{scaled_width / 3, scaled_height / 4, (scaled_width + 1) / 2, (scaled_height + 1) / 2};
    const Picture picture =
        codec_for(sample.encoding)
            .decode(sample, {.region = middle, .dct_scale = scale, .channels = channels, .path = path}, scratch);
    for (int y = 0; y < picture.height; ++y)
      for (int x = 0; x < picture.width * picture.channels; ++x) sum += picture.pixels[y * picture.row_stride + x];
  }
  static volatile uint64_t seen;
  seen = sum;
}

/// `bytes` under a name, for what reads files.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : descriptor_(memfd_create("fuzz", 0)) {
    if (descriptor_ < 0 || write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace penstock::fuzzing
