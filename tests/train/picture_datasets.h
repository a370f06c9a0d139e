// Small data sets of pictures of several sizes, each packed once per process in a temporary folder: JPEGs that are
// stored as coefficients, and raw pixels; and devices for a part of the first.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "core/rng.h"
#include "core/text.h"
#include "loader/codecs/png_writer.h"
#include "loader/device/device_renderer.h"
#include "loader/pack/pack.h"
#include "loader/shards/dataset.h"
#include "tests/support/testing.h"
#include "train/feed/feeder.h"
#include "train/resident/resident_feeder.h"

namespace penstock {

/// 70 pictures of 40 to 52 x 40 to 60 in 3 shards, in the order of their numbers. Every `grey_step`th one is grey.
inline std::shared_ptr<const Dataset> packed_pictures(const std::filesystem::path& folder, Encode encode,
                                                      int grey_step) {
  for (int i = 0; i < 70; ++i) {
    Rng rng(51, 0, static_cast<uint64_t>(i), 0);
    const int height = rng.between(40, 52), width = rng.between(40, 60);
    const Extent extent{height, width, i % grey_step == grey_step - 1 ? 1 : 3};
    std::vector<uint8_t> pixels(static_cast<size_t>(extent.height * extent.width * extent.channels));
    for (size_t k = 0; k < pixels.size(); ++k)
      pixels[k] = static_cast<uint8_t>((k * static_cast<size_t>(3 + i) / 7 + k / 150) % 200 + rng.next() % 50);
    const auto png = detail::write_png(pixels, extent);
    const auto class_folder = folder / "in" / (i % 2 == 0 ? "a" : "b");
    std::filesystem::create_directories(class_folder);
    std::ofstream(class_folder / concat(100 + i, ".png"), std::ios::binary)
        .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  }
  pack({.source = "image-folder",
        .input = folder / "in",
        .split = "train",
        .output = folder / "out",
        .shard_count = 3,
        .jobs = 1,
        .storage = {.encode = encode}});
  return Dataset::open(folder / "out");
}

/// Colour pictures, stored as JPEG coefficients.
inline std::shared_ptr<const Dataset> jpeg_dataset() {
  static const TemporaryFolder folder("jpeg-dataset");
  static const auto dataset = packed_pictures(folder.path(), Encode::kJpeg, /*grey_step=*/1000);  // none
  return dataset;
}

/// Colour and grey pictures, stored as raw pixels.
inline std::shared_ptr<const Dataset> raw_dataset() {
  static const TemporaryFolder folder("raw-dataset");
  static const auto dataset = packed_pictures(folder.path(), Encode::kRaw, /*grey_step=*/4);
  return dataset;
}

/// Free memory of a device in which the coefficients of the first `count` photographs of jpeg_dataset() fit, and no
/// more.
inline ResidentRoom room_for(int count) {
  uint64_t byte_count = 0;
  for (uint64_t index = 0; index < static_cast<uint64_t>(count); ++index)
    byte_count += DevicePictures::byte_count_of(jpeg_dataset()->at(index).bytes.size());
  return {.free_bytes = static_cast<int64_t>(byte_count * 8 / 7 + 1), .log = nullptr};
}

}  // namespace penstock
