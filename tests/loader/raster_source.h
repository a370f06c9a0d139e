// RasterSource: rasters in memory, and a second picture for each.
#pragma once

#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "loader/codecs/codec.h"
#include "loader/pack/pack.h"
#include "loader/sources/source.h"

namespace penstock::testing_data {

/// Pixels of one type as a sample, H x W x C of noise: u16 in all 16 bits, f32 from -500 to 500.
inline SourceSample raster_sample(PixelType type, const Extent& extent, uint64_t seed) {
  const size_t count =
      static_cast<size_t>(extent.height) * static_cast<size_t>(extent.width) * static_cast<size_t>(extent.channels);
  SourceSample sample{std::vector<uint8_t>(count * level_bytes(type)), raw_encoding(type), extent};
  Rng rng(seed, 0, 0, 0);
  for (size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<uint16_t>(rng.next() >> 16);
    const auto real = static_cast<float>(rng.uniform(-500, 500));
    if (type == PixelType::kF32)
      std::memcpy(&sample.bytes[i * sizeof real], &real, sizeof real);
    else
      std::memcpy(&sample.bytes[i * level_bytes(type)], &bits, level_bytes(type));
  }
  return sample;
}

/// The same as the file of an array.
inline FieldValue array_of(const SourceSample& sample) {
  return codec_for(sample.encoding).file({.extent = sample.extent, .encoding = sample.encoding, .bytes = sample.bytes});
}

class RasterSource : public Source {
 public:
  RasterSource(std::vector<SourceSample> samples, std::vector<FieldType> types = {}, bool has_one_size = true)
      : samples_(std::move(samples)), types_(std::move(types)), has_one_size_(has_one_size) {}

  uint64_t size() const override { return samples_.size(); }
  std::vector<std::string> class_names() const override { return {"a", "b"}; }
  int64_t label(uint64_t index) const override { return static_cast<int64_t>(index % 2); }
  SourceSample read(uint64_t index) const override { return samples_[index]; }
  std::vector<FieldType> fields() const override { return types_; }
  std::string fingerprint() const override { return "rasters"; }
  std::optional<Extent> raw_extent() const override {
    return has_one_size_ ? std::optional(samples_[0].extent) : std::nullopt;
  }
  PixelType raw_pixels() const override { return pixels_of(samples_[0].encoding); }

 private:
  std::vector<SourceSample> samples_;
  std::vector<FieldType> types_;
  bool has_one_size_;
};

inline PackOptions raster_options(const std::filesystem::path& output, PixelType type) {
  PackOptions options;
  options.output = output;
  options.shard_count = 3;
  options.jobs = 2;
  options.storage.pixels = type;
  return options;
}

}  // namespace penstock::testing_data
