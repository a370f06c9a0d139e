// A small data set of JPEGs, stored as coefficients in a temporary folder, packed once per process, and devices for a
// part of it.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "core/rng.h"
#include "core/text.h"
#include "loader/dataset.h"
#include "loader/detail/png_writer.h"
#include "loader/device_renderer.h"
#include "loader/pack.h"
#include "tests/support/testing.h"
#include "train/feeder.h"

namespace penstock {

/// 70 colour pictures of 40 to 52 x 40 to 60 in 3 shards, stored as JPEG coefficients.
inline std::shared_ptr<const Dataset> jpeg_dataset() {
  static const TemporaryFolder folder("jpeg-dataset");
  static const auto dataset = [] {
    for (int i = 0; i < 70; ++i) {
      Rng rng(51, 0, static_cast<uint64_t>(i), 0);
      const Extent extent{rng.between(40, 52), rng.between(40, 60), 3};
      std::vector<uint8_t> pixels(static_cast<size_t>(extent.height * extent.width * 3));
      for (size_t k = 0; k < pixels.size(); ++k)
        pixels[k] = static_cast<uint8_t>((k * static_cast<size_t>(3 + i) / 7 + k / 150) % 200 + rng.next() % 50);
      const auto png = detail::write_png(pixels, extent);
      const auto class_folder = folder.path() / "in" / (i % 2 == 0 ? "a" : "b");
      std::filesystem::create_directories(class_folder);
      std::ofstream(class_folder / concat(100 + i, ".png"), std::ios::binary)
          .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
    }
    pack({.source = "image-folder",
          .input = folder.path() / "in",
          .split = "train",
          .output = folder.path() / "out",
          .shard_count = 3,
          .jobs = 1,
          .storage = {.encode = Encode::kJpeg}});
    return Dataset::open(folder.path() / "out");
  }();
  return dataset;
}

/// Free memory of a device in which the coefficients of the first `count` photographs of jpeg_dataset() fit, and no
/// more.
inline ResidentRoom room_for(int count) {
  uint64_t byte_count = 0;
  for (uint64_t index = 0; index < static_cast<uint64_t>(count); ++index)
    byte_count += DevicePictures::byte_count_of(jpeg_dataset()->at(index).bytes.size());
  return {.free_bytes = static_cast<int64_t>(byte_count * 8 / 7 + 1), .say = nullptr};
}

}  // namespace penstock
