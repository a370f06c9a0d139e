// ObjectSource: a source in memory whose samples have boxes, with labels, key points and instance masks for each, and a
// mask of the whole picture.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "augment/plan/box.h"
#include "augment/targets/masks.h"
#include "core/rng.h"
#include "loader/codecs/png_writer.h"
#include "loader/files/instance_masks.h"
#include "loader/sources/source.h"

namespace penstock::testing_data {

template <class Element>
FieldValue bytes_of(const std::vector<Element>& elements) {
  FieldValue bytes(elements.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

/// Runs of the pixels of a box of whole pixels, column by column.
inline std::vector<uint32_t> runs_of_box(const Box& box, int height, int width) {
  std::vector<uint32_t> runs{0};
  for (int x = 0; x < width; ++x)
    for (int y = 0; y < height; ++y) {
      const bool is_inside = x >= box.x0 && x < box.x1 && y >= box.y0 && y < box.y1;
      if (is_inside != (runs.size() % 2 == 0)) runs.push_back(0);
      ++runs.back();
    }
  return runs;
}

/// A PNG with an EXIF block that says `orientation`, after its header.
inline std::vector<uint8_t> turned_png(std::vector<uint8_t> png, int orientation) {
  std::vector<uint8_t> chunk{'e',
                             'X',
                             'I',
                             'f',
                             'I',
                             'I',
                             42,
                             0,
                             8,
                             0,
                             0,
                             0,
                             1,
                             0,
                             0x12,
                             1,
                             3,
                             0,
                             1,
                             0,
                             0,
                             0,
                             static_cast<uint8_t>(orientation),
                             0,
                             0,
                             0,
                             0,
                             0,
                             0,
                             0};
  const auto crc = static_cast<uint32_t>(crc32(0, chunk.data(), static_cast<unsigned>(chunk.size())));
  chunk.insert(chunk.begin(), {0, 0, 0, static_cast<uint8_t>(chunk.size() - 4)});
  for (int shift = 24; shift >= 0; shift -= 8) chunk.push_back(static_cast<uint8_t>(crc >> shift));
  constexpr int kHeader = 8 + 25;
  png.insert(png.begin() + kHeader, chunk.begin(), chunk.end());
  return png;
}

/// Sample i is a grey PNG of 30 x 40 pixels whose level is that of its mask, 1 to 250, in quarters. It has i % 4 boxes
/// of whole pixels. Box b has the label 10 i + b (`kinds`), its corners as key points (`corners`, upper left and upper
/// right change places), and its pixels as a polygon (even b) or as runs (`shapes`).
class ObjectSource : public Source {
 public:
  static constexpr int kHeight = 30, kWidth = 40;

  explicit ObjectSource(uint64_t count) : count_(count) {}

  std::function<void(uint64_t id, SourceSample&)> spoil = {};
  int orientation = 1;  // of the stored pictures, which are what is described above once they are upright

  uint64_t size() const override { return count_; }
  std::vector<std::string> class_names() const override { return {}; }
  int64_t label(uint64_t) const override { return 0; }
  std::string fingerprint() const override { return "objects"; }
  std::vector<FieldType> fields() const override {
    const int64_t any = FieldType::kVariable;
    return {{.name = "boxes", .kind = FieldKind::kBoxes, .dtype = Dtype::kF32, .shape = {any, 4}},
            {.name = "kinds", .kind = FieldKind::kLabels, .dtype = Dtype::kI64, .shape = {any}, .of = "boxes"},
            {.name = "corners",
             .kind = FieldKind::kKeypoints,
             .dtype = Dtype::kF32,
             .shape = {any, 4, 3},
             .of = "boxes",
             .swapped = std::vector<std::pair<int, int>>{{0, 1}, {2, 3}}},
            {.name = "shapes", .kind = FieldKind::kInstances, .dtype = Dtype::kU8, .shape = {any}, .of = "boxes"},
            {.name = "segmentation", .kind = FieldKind::kMask, .dtype = Dtype::kU8, .shape = {any}, .fill = 255}};
  }

  static std::vector<Box> boxes_of(uint64_t id) {
    Rng rng(99, 0, id, 0);
    std::vector<Box> boxes;
    for (uint64_t b = 0; b < id % 4; ++b) {
      const int x = rng.between(0, kWidth - 12), y = rng.between(0, kHeight - 12);
      const int width = rng.between(4, 12), height = rng.between(4, 12);
      boxes.push_back({static_cast<float>(x), static_cast<float>(y), static_cast<float>(x + width),
                       static_cast<float>(y + height)});
    }
    return boxes;
  }

  static std::vector<uint8_t> levels_of(uint64_t id) {
    std::vector<uint8_t> levels(static_cast<size_t>(kHeight) * kWidth);
    for (size_t i = 0; i < levels.size(); ++i)
      levels[i] = static_cast<uint8_t>(1 + (id * 31 + i / kWidth / 3 * 7 + i % kWidth / 5 * 13) % 250);
    return levels;
  }

  SourceSample read(uint64_t id) const override {
    const auto levels = levels_of(id);
    const auto png = detail::write_png(levels, {kHeight, kWidth, 1});
    SourceSample sample{png, Encoding::kPng, {kHeight, kWidth, 1}};
    if (orientation > 1) {
      if (orientation > 4) sample.extent = {kWidth, kHeight, 1};
      const auto stored = as_stored<uint8_t>(levels, orientation, sample.extent.height, sample.extent.width);
      sample.bytes = turned_png(detail::write_png(stored, sample.extent), orientation);
    }
    const auto boxes = boxes_of(id);
    std::vector<int64_t> kinds;
    std::vector<float> corners;
    std::vector<InstanceMask> shapes;
    for (size_t b = 0; b < boxes.size(); ++b) {
      const auto& [x0, y0, x1, y1] = boxes[b];
      kinds.push_back(static_cast<int64_t>(10 * id + b));
      for (const auto& [x, y] : {std::array{x0, y0}, {x1, y0}, {x0, y1}, {x1, y1}})
        corners.insert(corners.end(), {x, y, 2});
      if (b % 2 == 0)
        shapes.push_back({.polygons = {{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}}});
      else
        shapes.push_back({.runs = runs_of_box(boxes[b], kHeight, kWidth)});
    }
    sample.fields = {bytes_of(boxes), bytes_of(kinds), bytes_of(corners), pack_instances(shapes), png};
    if (spoil) spoil(id, sample);
    return sample;
  }

 private:
  uint64_t count_;
};

}  // namespace penstock::testing_data
