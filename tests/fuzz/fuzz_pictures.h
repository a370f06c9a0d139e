// What the fuzz targets share: a small intact JPEG, decoding of bytes that claim to be a JPEG, and a file in memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>
#include <valgrind/memcheck.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "loader/codecs/codec.h"
#include "loader/jpeg/entropy/write_jpeg.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/pack/encoder.h"

namespace penstock::fuzzing {

constexpr int64_t kMaxPixelCount = 1 << 16;  // larger pictures would only cost time

constexpr Extent kSmallExtent{40, 52, 3};

/// A picture with a pattern; 4:2:0 if it has colours.
inline std::vector<uint8_t> patterned_jpeg(const Extent& extent) {
  const auto [height, width, channels] = extent;
  const int row_bytes = width * channels;
  std::vector<uint8_t> pixels(static_cast<size_t>(height * row_bytes));
  for (int i = 0; i < height * row_bytes; ++i)
    pixels[static_cast<size_t>(i)] = static_cast<uint8_t>(i * 7 + i / row_bytes * 11 + i % 29);
  return detail::write_jpeg({pixels.data(), row_bytes, height, width, channels, 0, 0}, 85);
}

inline const std::vector<uint8_t>& small_jpeg() {
  static const std::vector<uint8_t> file = patterned_jpeg(kSmallExtent);
  return file;
}

/// A source with ten samples, each of which is the small picture.
class SmallPictures final : public Source {
 public:
  uint64_t size() const override { return 10; }
  std::vector<std::string> class_names() const override { return {"c"}; }
  int64_t label(uint64_t) const override { return 0; }
  SourceSample read(uint64_t) const override { return {small_jpeg(), Encoding::kJpeg, kSmallExtent}; }
  std::string fingerprint() const override { return ""; }
};

inline std::shared_ptr<const detail::Codebook> small_codebook() { return detail::codebook_for(SmallPictures(), {}, 1); }

/// Writes the CRC-32C of a codebook into its last 4 bytes, because no input would guess it.
inline void fix_codebook_checksum(std::span<uint8_t> codebook) {
  if (codebook.size() < 4) return;
  const uint32_t checksum = crc32c(codebook.first(codebook.size() - 4));
  std::memcpy(codebook.data() + codebook.size() - 4, &checksum, 4);
}

/// Reads every byte, so that AddressSanitizer finds those outside of a buffer, and Valgrind those that nobody has
/// written.
inline void read_all(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (const uint8_t byte : bytes) sum += byte;
  asm volatile("" : : "r"(sum));
  static_cast<void>(VALGRIND_CHECK_MEM_IS_DEFINED(bytes.data(), bytes.size()));  // costs nothing without Valgrind
}

/// Decodes a middle part of `sample` by `path` at every scale. Hostile bytes may give an Error; everything else is a
/// finding.
inline void decode(const Sample& sample, DecodePath path) {
  const auto [height, width, channels] = sample.extent;
  if (int64_t{height} * width > kMaxPixelCount) return;
  static DecodeScratch scratch;  // reused, as in a worker
  for (const int scale : {8, 4, 2, 1}) {
    const int scaled_height = (height * scale + 7) / 8, scaled_width = (width * scale + 7) / 8;
    const Region middle{scaled_width / 3, scaled_height / 4, (scaled_width + 1) / 2, (scaled_height + 1) / 2};
    const Picture picture =
        codec_for(sample.encoding)
            .decode(sample, {.region = middle, .dct_scale = scale, .channels = channels, .path = path}, scratch);
    for (int y = 0; y < picture.height; ++y)
      read_all({picture.pixels + y * picture.row_stride, static_cast<size_t>(picture.width * picture.channels)});
  }
}

/// A file in memory that contains `bytes`, for functions that read files.
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
