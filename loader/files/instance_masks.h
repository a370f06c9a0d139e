// InstanceMasks: the bytes of a field of kind "instances": a mask for each box, as polygons or as runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "augment/targets/polygons.h"
#include "loader/files/field.h"

namespace penstock {

/// The mask of one object in the upright picture: polygons, whose union it is, or runs. With neither it is empty.
struct InstanceMask {
  std::vector<std::vector<Vertex>> polygons = {};
  /// COCO's counts: lengths of runs of 0, 1, 0, 1, ... of the picture's columns one after the other, each from the top.
  /// They add up to height * width.
  std::vector<uint32_t> runs = {};
  bool operator==(const InstanceMask&) const = default;
};

/// The masks of one sample, read without trust.
///
///     u32 n | u32 end[n] | n masks, each from the end of the one before (0) to its own, in bytes after end[]
///     a mask: nothing; or u8 1, then polygons: u32 m, then m points as f32 x, y; or u8 2, then runs: each 7 bits of
///     a count per byte, the lowest ones first, with bit 7 set where more follow (LEB128), of at most 5 bytes
///
/// All numbers are little-endian. Example: one mask of a picture of 2 x 2 whose right column is set, runs 2, 2:
/// `01 00 00 00  03 00 00 00  02 02 02`.
///
/// Lifetime: a view of the bytes. Thread-safety: const.
class InstanceMasks {
 public:
  /// For the masks of an upright picture of this size. Throws corrupt_error `<n> masks in <b> bytes; expected ...`.
  InstanceMasks(FieldBytes bytes, int height, int width);
  size_t size() const { return count_; }
  /// Throws corrupt_error `mask <number>: ...` for runs that do not add up to the picture, numbers that are cut off,
  /// and points that are not finite or further outside of the picture than it is wide or high.
  InstanceMask at(size_t number) const;

 private:
  uint32_t end(size_t number) const;

  FieldBytes bytes_, masks_;
  size_t count_;
  int height_, width_;
};

/// The bytes of these masks, of which none has both polygons and runs.
FieldValue pack_instances(std::span<const InstanceMask> masks);

/// Throws corrupt_error `field "x": ...` unless `bytes` are masks of `box_count` boxes in a picture of this size.
/// Returns the number of polygons with fewer than three points, which have no area.
uint64_t check_instances(const FieldType& type, FieldBytes bytes, size_t box_count, int height, int width);

/// The runs of COCO's compressed text (pycocotools' rleFrString). Throws corrupt_error for text that is none.
std::vector<uint32_t> runs_of_coco(std::string_view text);

/// A mask of these runs: height x width values of 0 and 1, row by row.
/// Requires runs that add up to height * width, as InstanceMasks::at() gives them.
std::vector<uint8_t> pixels_of_runs(std::span<const uint32_t> runs, int height, int width);
/// The inverse: the runs of height x width values of 0 and 1.
std::vector<uint32_t> runs_of_pixels(std::span<const uint8_t> pixels, int height, int width);

}  // namespace penstock
