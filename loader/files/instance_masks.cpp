// InstanceMasks: reads and writes masks of objects.
#include "loader/files/instance_masks.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/bytes.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

enum : uint8_t { kPolygons = 1, kRuns = 2 };

template <class Value>
Value read(FieldBytes bytes, size_t at) {
  Value value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// "" or what is wrong with the polygons in `bytes`.
std::string read_polygons(FieldBytes bytes, int height, int width, std::vector<std::vector<Vertex>>& polygons) {
  const auto is_near = [](float value, int size) {  // false for a NaN
    return value >= -static_cast<float>(size) && value <= 2 * static_cast<float>(size);
  };
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(uint32_t)) return concat("ends after ", bytes.size(), " bytes of a polygon's size");
    const auto count = read<uint32_t>(bytes, 0);
    bytes = bytes.subspan(sizeof count);
    if (count > bytes.size() / sizeof(Vertex))
      return concat("a polygon of ", count, " points in ", bytes.size(), " bytes; expected at most ",
                    bytes.size() / sizeof(Vertex));
    auto& polygon = polygons.emplace_back(count);
    for (auto& point : polygon) {
      point = read<Vertex>(bytes, 0);
      bytes = bytes.subspan(sizeof point);
      if (!is_near(point.x, width) || !is_near(point.y, height))
        return concat("a point is ", point.x, ", ", point.y, "; expected one in a picture of ", width, " x ", height,
                      " pixels (width x height), or near it");
    }
  }
  return "";
}

/// "" or what is wrong with the runs in `bytes`.
std::string read_runs(FieldBytes bytes, uint64_t pixel_count, std::vector<uint32_t>& runs) {
  constexpr int kMostBits = 35;
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t run = 0;
    for (int bits = 0;; bits += 7) {
      if (at == bytes.size() || bits == kMostBits) return concat("run ", runs.size(), " does not end");
      const uint8_t byte = bytes[at++];
      run |= static_cast<uint64_t>(byte & 0x7F) << bits;
      if (byte < 0x80) break;
    }
    sum += run;
    if (sum > pixel_count)
      return concat("runs add up to ", sum, " or more; expected the ", pixel_count, " pixels of the picture");
    runs.push_back(static_cast<uint32_t>(run));
  }
  if (sum == pixel_count) return "";
  return concat("runs add up to ", sum, "; expected the ", pixel_count, " pixels of the picture");
}

void write_runs(FieldValue& bytes, std::span<const uint32_t> runs) {
  for (uint32_t run : runs) {
    for (; run >= 0x80; run >>= 7) bytes.push_back(static_cast<uint8_t>(run | 0x80));
    bytes.push_back(static_cast<uint8_t>(run));
  }
}

}  // namespace

InstanceMasks::InstanceMasks(FieldBytes bytes, int height, int width)
    : bytes_(bytes), count_(0), height_(height), width_(width) {
  constexpr size_t kNumber = sizeof(uint32_t);
  const uint64_t count = bytes.size() < kNumber ? 0 : read<uint32_t>(bytes, 0);
  const uint64_t head = kNumber * (1 + count);
  if (bytes.size() < kNumber || bytes.size() < head)
    throw corrupt_error(concat(count, " masks in ", bytes.size(), " bytes; expected ", head, " bytes or more"));
  count_ = count;
  masks_ = bytes.subspan(head);
  uint32_t before = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (end(i) < before || end(i) > masks_.size())
      throw corrupt_error(concat("mask ", i, " ends at byte ", end(i), "; expected ", before, " to ", masks_.size()));
    before = end(i);
  }
  if (before != masks_.size())
    throw corrupt_error(concat("the last mask ends at byte ", before, "; expected ", masks_.size()));
}

uint32_t InstanceMasks::end(size_t number) const { return read<uint32_t>(bytes_, sizeof(uint32_t) * (1 + number)); }

InstanceMask InstanceMasks::at(size_t number) const {
  if (number >= count_) throw bug_error(concat("instance masks: mask ", number, "; expected 0 to ", count_, " - 1"));
  const size_t begin = number == 0 ? 0 : end(number - 1);
  const FieldBytes bytes = masks_.subspan(begin, end(number) - begin);
  InstanceMask mask;
  if (bytes.empty()) return mask;
  const auto pixel_count = static_cast<uint64_t>(height_) * static_cast<uint64_t>(width_);
  const std::string problem =
      bytes[0] == kPolygons ? read_polygons(bytes.subspan(1), height_, width_, mask.polygons)
      : bytes[0] == kRuns   ? read_runs(bytes.subspan(1), pixel_count, mask.runs)
                            : concat("begins with ", static_cast<int>(bytes[0]), "; expected 1 (polygons) or 2 (runs)");
  if (!problem.empty()) throw corrupt_error(concat("mask ", number, ": ", problem));
  return mask;
}

FieldValue pack_instances(std::span<const InstanceMask> masks) {
  FieldValue head, bytes;
  append_bytes(head, static_cast<uint32_t>(masks.size()));
  for (const auto& mask : masks) {
    if (!mask.polygons.empty() && !mask.runs.empty())
      throw bug_error(concat("pack_instances: ", mask.polygons.size(), " polygons and ", mask.runs.size(),
                             " runs; expected either"));
    if (!mask.polygons.empty()) bytes.push_back(kPolygons);
    for (const auto& polygon : mask.polygons) {
      append_bytes(bytes, static_cast<uint32_t>(polygon.size()));
      for (const auto& point : polygon) append_bytes(bytes, point);
    }
    if (!mask.runs.empty()) bytes.push_back(kRuns);
    write_runs(bytes, mask.runs);
    if (bytes.size() > UINT32_MAX) throw config_error(concat("instance masks: 4 GiB and more; expected less"));
    append_bytes(head, static_cast<uint32_t>(bytes.size()));
  }
  head.insert(head.end(), bytes.begin(), bytes.end());
  return head;
}

uint64_t check_instances(const FieldType& type, FieldBytes bytes, size_t box_count, int height, int width) {
  constexpr size_t kLeastPoints = 3;  // of an area
  uint64_t flat_count = 0;
  try {
    const InstanceMasks masks(bytes, height, width);
    if (masks.size() != box_count)
      throw corrupt_error(
          concat(masks.size(), " masks; expected ", box_count, ", one for each of ", in_quotes(type.of)));
    for (size_t i = 0; i < masks.size(); ++i)
      for (const auto& polygon : masks.at(i).polygons) flat_count += polygon.size() < kLeastPoints;
  } catch (const Error& error) {
    throw Error(error.kind(), concat("field ", in_quotes(type.name), ": ", error.what()));
  }
  return flat_count;
}

std::vector<uint32_t> runs_of_coco(std::string_view text) {
  // 5 bits per character from '0' on, the lowest ones first; bit 5: more follow; bit 4 of the last one is the sign.
  // From the fourth run on, what is stored is the difference from the run two before.
  constexpr int kMostBits = 35;
  std::vector<uint32_t> runs;
  for (size_t at = 0; at < text.size();) {
    int64_t value = 0;
    for (int bits = 0;;) {
      const int digit = at < text.size() ? text[at] - '0' : -1;
      if (digit < 0 || digit > 63 || bits == kMostBits)
        throw corrupt_error(concat("run ", runs.size(), " of an RLE of ", text.size(), " characters: character ", at,
                                   "; expected COCO's compressed counts"));
      ++at;
      value |= static_cast<int64_t>(digit & 0x1F) << bits;
      bits += 5;
      if ((digit & 0x20) != 0) continue;
      if ((digit & 0x10) != 0) value -= int64_t{1} << bits;
      break;
    }
    if (runs.size() > 2) value += runs[runs.size() - 2];
    if (value < 0 || value > UINT32_MAX)
      throw corrupt_error(concat("run ", runs.size(), " of an RLE is ", value, "; expected 0 to ", UINT32_MAX));
    runs.push_back(static_cast<uint32_t>(value));
  }
  return runs;
}

std::vector<uint8_t> pixels_of_runs(std::span<const uint32_t> runs, int height, int width) {
  std::vector<uint8_t> pixels(static_cast<size_t>(height) * static_cast<size_t>(width));
  size_t row = 0, column = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t left = runs[i]; left > 0;) {
      const size_t count = std::min(left, static_cast<size_t>(height) - row);
      if (i % 2 == 1)
        for (size_t k = 0; k < count; ++k) pixels[(row + k) * static_cast<size_t>(width) + column] = 1;
      left -= count;
      row += count;
      if (row < static_cast<size_t>(height)) continue;
      row = 0;
      ++column;
    }
  }
  return pixels;
}

std::vector<uint32_t> runs_of_pixels(std::span<const uint8_t> pixels, int height, int width) {
  std::vector<uint32_t> runs{0};
  uint8_t before = 0;
  for (size_t column = 0; column < static_cast<size_t>(width); ++column)
    for (size_t row = 0; row < static_cast<size_t>(height); ++row) {
      const uint8_t value = pixels[row * static_cast<size_t>(width) + column];
      if (value != before) runs.push_back(0);
      ++runs.back();
      before = value;
    }
  return runs;
}

}  // namespace penstock
